// The panes of a layout on the page: columns, cells with tabs, and the borders between them, which can be moved.

import { aria, button, fill, h, on, taken, tool } from "./dom";
import { dragged } from "./drag";
import {
  another, closed, kindOf, type Layout, moved, opened, placed, type Side, tabsOf, withCellShares, withColumnShares,
} from "./layout";
import { type Item, menuButton } from "./menu";
import type { Pane, PaneKind } from "./pane";
import { nearest } from "./nearest";
import type { Signal } from "./signal";
import { Split } from "./split";

interface Shown {
  readonly panel: HTMLElement;
  readonly pane: Pane;
}

export interface Panes {
  readonly kinds: readonly PaneKind[];
  open(kind: PaneKind, tab: string, into: HTMLElement): Pane;
  about(kind: PaneKind): void;
  exports(tab: string): readonly Item[];
  /** A pane came to the front. */
  fronted(pane: Pane): void;
}

const SIDES: readonly [Side, string][] = [["left", "left"], ["right", "right"], ["up", "up"], ["down", "down"]];

export class Grid {
  readonly element = h("div.ex-columns");
  readonly #shown = new Map<string, Shown>();
  /** Which tabs are where: while that stays, a change of sizes moves borders and nothing else. */
  #structure = "";
  #splits: ((of: Layout) => void)[] = [];
  #front: ReadonlySet<string> = new Set();
  /** Tabs in front stay in sight where their bar gets narrower, or another theme's letters wider. */
  readonly #sized = new ResizeObserver(() => this.#seeFronts());
  /** The tab that was used last: what is opened next goes beside it. */
  #last: string | undefined;
  readonly #name: string;
  readonly #panes: Panes;

  constructor(
    parent: HTMLElement,
    name: string,
    readonly layout: Signal<Layout>,
    panes: Panes,
  ) {
    this.#name = name;
    this.#panes = panes;
    parent.append(this.element);
    layout.watch(() => this.#render());
    on(this.element, "focusin", event => {
      const cell = (event.target as HTMLElement).closest<HTMLElement>(".ex-cell");
      if (cell?.dataset.active) this.#last = cell.dataset.active;
    });
  }

  /** The pane on a tab, opened if need be. */
  pane(tab: string): Pane | undefined {
    return this.#shown.get(tab)?.pane;
  }

  /** Brings a pane to the front, and opens it where it is not there. Where it opens is left to `near`. */
  open(tab: string, near = this.#last): Pane | undefined {
    this.layout.value = opened(this.layout.value, tab, near);
    return this.pane(tab);
  }

  get openTabs(): readonly string[] {
    return tabsOf(this.layout.value);
  }

  /** Puts the focus on a tab, or on the first one where it is gone. */
  focus(tab: string): void {
    const own = this.element.querySelector<HTMLElement>(`[role=tab][data-tab="${CSS.escape(tab)}"]`);
    (own ?? this.element.querySelector<HTMLElement>("[role=tab][aria-selected=true], button"))?.focus();
  }

  dispose(): void {
    this.#sized.disconnect();
    for (const each of this.#shown.values()) each.pane.dispose();
    this.#shown.clear();
  }

  #fronts(): NodeListOf<HTMLElement> {
    return this.element.querySelectorAll("[role=tablist] > [aria-selected=true]");
  }

  #seeFronts(): void {
    for (const front of this.#fronts()) nearest(front.parentElement as HTMLElement, front);
  }

  #change(layout: Layout, focus: string): void {
    this.layout.value = layout;
    this.focus(focus);
  }

  #render(): void {
    const layout = this.layout.value;
    const structure = JSON.stringify(layout.columns.map(column => column.cells.map(cell => [cell.tabs, cell.active])));
    if (structure !== this.#structure) this.#build(layout);
    this.#structure = structure;
    this.#splits.forEach(size => size(layout));
  }

  #build(layout: Layout): void {
    const present = new Set(tabsOf(layout));
    for (const [tab, { pane, panel }] of this.#shown) {
      if (present.has(tab)) continue;
      pane.dispose();
      panel.remove();
      this.#shown.delete(tab);
    }
    const scrolled = positions(this.element);
    this.#splits = [];
    const columns = layout.columns.map((column, x) => {
      const cells = column.cells.map(cell => this.#cell(cell.tabs, cell.active));
      const split = Split(cells, "horizontal", shares => (this.layout.value = withCellShares(this.layout.value, x, shares)));
      this.#splits.push(of => split.size((of.columns[x]?.cells ?? []).map(each => each.share)));
      return h("div.ex-column", ...split.elements);
    });
    const split = Split(columns, "vertical", shares => (this.layout.value = withColumnShares(this.layout.value, shares)));
    this.#splits.push(of => split.size(of.columns.map(each => each.share)));
    fill(this.element, ...split.elements);
    if (columns.length === 0) this.element.append(this.#nothing());
    for (const [element, top, left] of scrolled) element.scrollTo(left, top);
    this.#sized.disconnect();
    for (const front of this.#fronts()) for (const each of [front, front.parentElement as HTMLElement]) this.#sized.observe(each);
    this.#seeFronts();
    const before = this.#front;
    this.#front = new Set(layout.columns.flatMap(column => column.cells.map(cell => cell.active)));
    for (const tab of this.#front) {
      this.#fill(tab);
      const pane = this.pane(tab);
      if (pane && !before.has(tab)) this.#panes.fronted(pane);
    }
  }

  #nothing(): HTMLElement {
    const items = () => this.#addable(undefined);
    return h("div.ex-empty", h("p", "No pane is open."), menuButton("Add a pane", "Add a pane", items));
  }

  /** Opens a pane when it is first seen, once its place is on the page. */
  #fill(tab: string): void {
    const kind = this.#kind(tab);
    if (!kind || this.#shown.has(tab)) return;
    const panel = this.element.querySelector<HTMLElement>(`[data-panel="${CSS.escape(tab)}"]`);
    if (panel) this.#shown.set(tab, { panel, pane: this.#opened(kind, tab, panel) });
  }

  /** A pane that cannot open says so in its place, and leaves the others alone. */
  #opened(kind: PaneKind, tab: string, panel: HTMLElement): Pane {
    try {
      return this.#panes.open(kind, tab, panel);
    } catch (error) {
      console.error(error);
      const said = error instanceof Error ? error.message : String(error);
      fill(panel, h("p.ex-hint", { role: "alert" }, `${kind.title} could not be shown: ${said}. This is a fault of the viewer; the record is fine.`));
      return { reveal: () => false, exports: () => [], dispose: () => undefined };
    }
  }

  #kind(tab: string): PaneKind | undefined {
    return this.#panes.kinds.find(each => each.id === kindOf(tab));
  }

  #title(tab: string): string {
    const number = /~(\d+)$/.exec(tab)?.[1];
    return (this.#kind(tab)?.title ?? tab) + (number ? ` ${number}` : "");
  }

  #cell(tabs: readonly string[], active: string): HTMLElement {
    const id = (tab: string, part: string) => `${this.#name}-${part}-${tab}`;
    const buttons = tabs.map(tab => {
      const chosen = tab === active;
      const made = button("ex-tab", this.#title(tab), () => this.#change(opened(this.layout.value, tab), tab), {
        role: "tab", id: id(tab, "tab"), "data-tab": tab, "aria-selected": String(chosen), "aria-controls": id(tab, "panel"), tabindex: chosen ? 0 : -1,
      });
      on(made, "keydown", event => this.#key(event, tab, tabs));
      dragged(made, this.element, (target, place) => this.#change(placed(this.layout.value, tab, target, place), tab));
      return made;
    });
    const kind = this.#kind(active);
    const title = this.#title(active);
    const tools = h(
      "div.ex-tools",
      menuButton("Add a pane here", "+", () => this.#addable(active)),
      kind ? tool("?", `What ${title} shows`, () => this.#panes.about(kind), "What am I looking at?") : null,
      menuButton("Move, save or close this pane", "⋯", () => this.#actions(active), `${title}: move, save or close`),
    );
    const panels = tabs.map(tab => {
      const panel = this.#shown.get(tab)?.panel ?? h("div", { "data-panel": tab });
      panel.className = "ex-panel";
      panel.id = id(tab, "panel");
      panel.hidden = tab !== active;
      panel.setAttribute("role", "tabpanel");
      aria(panel, "labelledby", id(tab, "tab"));
      return panel;
    });
    return h(
      "div.ex-cell", { "data-active": active },
      h("div.ex-tabbar", h("div.ex-tabs", { role: "tablist", "aria-label": "Panes" }, ...buttons), tools),
      ...panels,
    );
  }

  #key(event: KeyboardEvent, tab: string, tabs: readonly string[]): void {
    const at = tabs.indexOf(tab);
    const side = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" }[event.key] as Side | undefined;
    const next = { ArrowLeft: at - 1 + tabs.length, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (side && event.shiftKey) {
      this.#change(moved(this.layout.value, tab, side), tab);
    } else if (next !== undefined) {
      const to = tabs[next % tabs.length] ?? tab;
      this.#change(opened(this.layout.value, to), to);
    } else if (event.key === "Delete") {
      this.#change(closed(this.layout.value, tab), tabs[at === 0 ? 1 : at - 1] ?? "");
    } else {
      return;
    }
    taken(event);
  }

  #addable(near: string | undefined): Item[] {
    return this.#panes.kinds.map(kind => ({
      label: this.openTabs.includes(kind.id) ? `${kind.title} (one more)` : kind.title,
      run: () => {
        const tab = another(this.layout.value, kind.id);
        this.#change(opened(this.layout.value, tab, near), tab);
      },
    }));
  }

  #actions(tab: string): Item[] {
    const layout = this.layout.value;
    const moves = SIDES.map(([side, word]) => ({
      label: `Move ${word}`,
      run: () => this.#change(moved(layout, tab, side), tab),
      unavailable: moved(layout, tab, side) === layout ? "There is nowhere to move it to" : undefined,
    }));
    return [...this.#panes.exports(tab), ...moves, { label: "Close", run: () => this.#change(closed(layout, tab), "") }];
  }
}

/** Where the elements below are scrolled to: moving one in the page forgets it. */
function positions(of: HTMLElement): [Element, number, number][] {
  return [...of.querySelectorAll("*")]
    .filter(element => element.scrollTop > 0 || element.scrollLeft > 0)
    .map(element => [element, element.scrollTop, element.scrollLeft]);
}
