// Pages in front of the viewer: help, the catalogue, what a pane shows.

import { h, on, tool } from "./dom";

/** Opens a modal page; it is gone when it closes. `side`: along the right edge, so that what it is about stays seen. */
export function openDialog(root: HTMLElement, title: string, side: boolean,
    ...body: readonly (Node | string)[]): HTMLDialogElement {
  const close = tool("×", "Close", () => dialog.close());
  const heading = h("h2", title);
  const dialog = h(
    "dialog", { class: side ? "ex-dialog ex-side" : "ex-dialog", "aria-label": title },
    h("header", heading, close), h("div.ex-dialog-body", { tabindex: 0 }, ...body),
  );
  on(dialog, "close", () => dialog.remove());
  on(dialog, "click", event => {
    if (event.target === dialog) dialog.close();
  });
  root.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Puts a text on the clipboard; where the page may not (over plain HTTP there is none), it is shown. */
export async function copy(near: Element, title: string, text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    openDialog(near.closest<HTMLElement>(".ex-root")!, title, false, h("pre", text));
  }
}
