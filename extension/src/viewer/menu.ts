// A button that opens a menu. The menu is a popover, so that it lies above everything and closes by itself.

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
