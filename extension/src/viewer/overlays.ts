// What opens in front of the viewer: menus (popovers, which lie above everything and close by themselves), and pages
// such as help and the catalogue.

import { aria, button, h, on, tool } from "./dom";

export interface MenuItem {
  readonly label: string;
  readonly run: () => void;
  /** Why it cannot be chosen now; it stays readable. */
  readonly unavailable?: string;
  /** Of a choice, whether it is taken. */
  readonly checked?: boolean;
}

export function menuButton(label: string, glyph: string, items: () => readonly MenuItem[], name = label): HTMLElement {
  const anchor = tool(glyph, name, () => openMenu(anchor, label, items()), label);
  anchor.ariaHasPopup = "menu";
  anchor.ariaExpanded = "false";
  return anchor;
}

function openMenu(anchor: HTMLElement, label: string, items: readonly MenuItem[]): void {
  const rows = items.map(({ label, run, unavailable, checked }) => {
    const choose = () => {
      if (unavailable !== undefined) return;
      menu.hidePopover();
      run();
    };
    return button("ex-menu-item", label, choose, {
      role: checked === undefined ? "menuitem" : "menuitemcheckbox", tabindex: -1,
      "aria-checked": checked === undefined ? undefined : String(checked),
      "aria-disabled": unavailable === undefined ? undefined : "true", title: unavailable,
    });
  });
  const menu = h("div.ex-menu", { role: "menu", popover: "auto", "aria-label": label }, ...rows);
  on(menu, "keydown", event => {
    const at = rows.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + rows.length, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      rows[to % rows.length]?.focus();
    } else if (event.key === "Tab") {
      menu.hidePopover();
    }
  });
  on(menu, "toggle", event => {
    if (event.newState === "open") return;
    aria(anchor, "expanded", "false");
    if (menu.contains(document.activeElement) || document.activeElement === document.body) anchor.focus();
    menu.remove();
  });
  anchor.after(menu);
  aria(anchor, "expanded", "true");
  menu.showPopover();
  below(menu, anchor);
  rows[0]?.focus();
}

/** Puts a popover under its anchor, and inside the window. */
export function below(popover: HTMLElement, anchor: HTMLElement): void {
  const at = anchor.getBoundingClientRect();
  const left = Math.max(4, Math.min(at.left, window.innerWidth - popover.offsetWidth - 8));
  const under = at.bottom + 2;
  const top =
    under + popover.offsetHeight > window.innerHeight ? Math.max(4, at.top - popover.offsetHeight - 2) : under;
  popover.style.left = `${left}px`;
  popover.style.top = `${top}px`;
}

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
