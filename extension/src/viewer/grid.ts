// The panes of a layout on the page: columns, cells with tabs that can be dragged, and the borders between them, which
// the pointer and the arrow keys move.

import { aria, button, fill, h, on, taken, tool } from "./dom";
import { another, closed, kindOf, type Layout, moved, opened, placed, type Direction, tabsOf, withCellShares,
  withColumnShares, type DropPlace, resized } from "./layout";
import { type MenuItem, menuButton } from "./overlays";
import type { Pane, PaneKind } from "./pane";
import type { Signal } from "./signal";
import { sum } from "./collections";

interface OpenPane {
  readonly panel: HTMLElement;
  readonly pane: Pane;
}

interface Panes {
  readonly kinds: readonly PaneKind[];
  open(kind: PaneKind, tab: string, into: HTMLElement): Pane;
  about(kind: PaneKind): void;
  exports(tab: string): readonly MenuItem[];
  /** A pane came to the front. */
  fronted(pane: Pane): void;
}

const SIDES: readonly [Direction, string][] = [["left", "left"], ["right", "right"], ["up", "up"], ["down", "down"]];

export function Grid(parent: HTMLElement, name: string, laid: Signal<Layout>, panes: Panes) {
  const element = h("div.ex-columns");
  const shown = new Map<string, OpenPane>();
  /** Which tabs are where: while that stays, a change of sizes moves borders and nothing else. */
  let built = "";
  let splits: ((of: Layout) => void)[] = [];
  let front: ReadonlySet<string> = new Set();
  /** The tab that was used last: what is opened next goes beside it. */
  let last: string | undefined;
  /** The pane on a tab, opened if need be. */
  const paneOn = (tab: string): Pane | undefined => shown.get(tab)?.pane;
  const openTabs = (): readonly string[] => tabsOf(laid.value);
  const kindOn = (tab: string): PaneKind | undefined => panes.kinds.find(each => each.id === kindOf(tab));
  parent.append(element);
  laid.watch(render);
  on(element, "focusin", event => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>(".ex-cell");
    if (cell?.dataset.active) last = cell.dataset.active;
  });

  /** Brings a pane to the front, and opens it where it is not there. Where it opens is left to `near`. */
  function open(tab: string, near = last): Pane | undefined {
    laid.value = opened(laid.value, tab, near);
    return paneOn(tab);
  }

  /** Puts the focus on a tab, or on the first one where it is gone. */
  function focusOn(tab: string): void {
    const own = element.querySelector<HTMLElement>(`[role=tab][data-tab="${CSS.escape(tab)}"]`);
    (own ?? element.querySelector<HTMLElement>("[role=tab][aria-selected=true], button"))?.focus();
  }

  function dispose(): void {
    for (const each of shown.values()) each.pane.dispose();
    shown.clear();
  }

  function change(layout: Layout, focus: string): void {
    laid.value = layout;
    focusOn(focus);
  }

  function render(): void {
    const layout = laid.value;
    const structure = JSON.stringify(layout.columns.map(column => column.cells.map(cell => [cell.tabs, cell.active])));
    if (structure !== built) build(layout);
    built = structure;
    splits.forEach(size => size(layout));
  }

  function build(layout: Layout): void {
    const present = new Set(tabsOf(layout));
    for (const [tab, { pane, panel }] of shown) {
      if (present.has(tab)) continue;
      pane.dispose();
      panel.remove();
      shown.delete(tab);
    }
    const scrolled = positions(element);
    splits = [];
    const columns = layout.columns.map((column, x) => {
      const cells = column.cells.map(cell => cellOf(cell.tabs, cell.active));
      const split = Split(cells, "horizontal", shares => (laid.value = withCellShares(laid.value, x, shares)));
      splits.push(of => split.size((of.columns[x]?.cells ?? []).map(each => each.share)));
      return h("div.ex-column", ...split.elements);
    });
    const split = Split(columns, "vertical", shares => (laid.value = withColumnShares(laid.value, shares)));
    splits.push(of => split.size(of.columns.map(each => each.share)));
    fill(element, ...split.elements);
    if (columns.length === 0) element.append(nothing());
    for (const [element, top, left] of scrolled) element.scrollTo(left, top);
    const before = front;
    front = new Set(layout.columns.flatMap(column => column.cells.map(cell => cell.active)));
    for (const tab of front) {
      fillTab(tab);
      const pane = paneOn(tab);
      if (pane && !before.has(tab)) panes.fronted(pane);
    }
  }

  function nothing(): HTMLElement {
    return h("div.ex-empty", h("p", "No pane is open."),
      menuButton("Add a pane", "Add a pane", () => addable(undefined)));
  }

  /** Opens a pane when it is first seen, once its place is on the page. */
  function fillTab(tab: string): void {
    const kind = kindOn(tab);
    if (!kind || shown.has(tab)) return;
    const panel = element.querySelector<HTMLElement>(`[data-panel="${CSS.escape(tab)}"]`);
    if (panel) shown.set(tab, { panel, pane: openedPane(kind, tab, panel) });
  }

  /** A pane that cannot open says so in its place, and leaves the others alone. */
  function openedPane(kind: PaneKind, tab: string, panel: HTMLElement): Pane {
    try {
      return panes.open(kind, tab, panel);
    } catch (error) {
      console.error(error);
      const message = error instanceof Error ? error.message : String(error);
      fill(panel, h("p.ex-hint", { role: "alert" },
        `${kind.title} could not be shown: ${message}. This is a bug in the viewer; the record is intact.`));
      return { reveal: () => false, exports: () => [], dispose: () => undefined };
    }
  }

  function titleOn(tab: string): string {
    const number = /~(\d+)$/.exec(tab)?.[1];
    return (kindOn(tab)?.title ?? tab) + (number ? ` ${number}` : "");
  }

  function cellOf(tabs: readonly string[], active: string): HTMLElement {
    const id = (tab: string, part: string) => `${name}-${part}-${tab}`;
    const buttons = tabs.map(tab => {
      const chosen = tab === active;
      const made = button("ex-tab", titleOn(tab), () => change(opened(laid.value, tab), tab), {
        role: "tab", id: id(tab, "tab"), "data-tab": tab, "aria-selected": String(chosen),
        "aria-controls": id(tab, "panel"), tabindex: chosen ? 0 : -1,
      });
      on(made, "keydown", event => key(event, tab, tabs));
      dragged(made, element, (target, place) => change(placed(laid.value, tab, target, place), tab));
      return made;
    });
    const kind = kindOn(active);
    const title = titleOn(active);
    const tools = h(
      "div.ex-tools",
      menuButton("Add a pane here", "+", () => addable(active)),
      kind ? tool("?", `What ${title} shows`, () => panes.about(kind), "What am I looking at?") : null,
      menuButton("Move, save or close this pane", "⋯", () => actions(active), `${title}: move, save or close`),
    );
    const panels = tabs.map(tab => {
      const panel = shown.get(tab)?.panel ?? h("div", { "data-panel": tab });
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

  function key(event: KeyboardEvent, tab: string, tabs: readonly string[]): void {
    const at = tabs.indexOf(tab);
    const side =
      { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" }[event.key] as Direction | undefined;
    const next = { ArrowLeft: at - 1 + tabs.length, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (side && event.shiftKey) {
      change(moved(laid.value, tab, side), tab);
    } else if (next !== undefined) {
      const to = tabs[next % tabs.length] ?? tab;
      change(opened(laid.value, to), to);
    } else if (event.key === "Delete") {
      change(closed(laid.value, tab), tabs[at === 0 ? 1 : at - 1] ?? "");
    } else {
      return;
    }
    taken(event);
  }

  function addable(near: string | undefined): MenuItem[] {
    return panes.kinds.map(kind => ({
      label: openTabs().includes(kind.id) ? `${kind.title} (one more)` : kind.title,
      run: () => {
        const tab = another(laid.value, kind.id);
        change(opened(laid.value, tab, near), tab);
      },
    }));
  }

  function actions(tab: string): MenuItem[] {
    const layout = laid.value;
    const moves = SIDES.map(([side, word]) => ({
      label: `Move ${word}`,
      run: () => change(moved(layout, tab, side), tab),
      unavailable: moved(layout, tab, side) === layout ? "There is nowhere to move it to" : undefined,
    }));
    return [...panes.exports(tab), ...moves, { label: "Close", run: () => change(closed(layout, tab), "") }];
  }

  return { element, pane: paneOn, open, focus: focusOn, dispose, layout: laid, get openTabs() { return openTabs(); } };
}

/** Where the elements below are scrolled to: moving one in the page forgets it. */
function positions(of: HTMLElement): [Element, number, number][] {
  return [...of.querySelectorAll("*")]
    .filter(element => element.scrollTop > 0 || element.scrollLeft > 0)
    .map(element => [element, element.scrollTop, element.scrollLeft]);
}

const STARTS_AT = 6;
const EDGE = 0.25;

/** Lets `handle` be dragged onto a cell inside `area`: tells the tab in front there, and which part of it was meant. */
function dragged(handle: HTMLElement, area: HTMLElement,
    drop: (target: string, place: DropPlace) => void): void {
  on(handle, "pointerdown", down => {
    if (down.button !== 0) return;
    const mark = h("div.ex-drop");
    let found: { tab: string; place: DropPlace } | null = null;
    const move = (event: PointerEvent) => {
      if (!mark.isConnected) {
        if (Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < STARTS_AT) return;
        area.append(mark);
      }
      found = under(area, event, mark);
    };
    const end = (event: PointerEvent) => {
      handle.removeEventListener("pointermove", move);
      handle.removeEventListener("pointerup", end);
      handle.removeEventListener("pointercancel", end);
      mark.remove();
      if (found && event.type === "pointerup") drop(found.tab, found.place);
    };
    handle.setPointerCapture(down.pointerId);
    on(handle, "pointermove", move);
    on(handle, "pointerup", end);
    on(handle, "pointercancel", end);
  });
}

function under(area: HTMLElement, event: PointerEvent, mark: HTMLElement): { tab: string; place: DropPlace } | null {
  mark.hidden = true;
  const cells =
    document.elementsFromPoint(event.clientX, event.clientY).map(each => each.closest<HTMLElement>(".ex-cell"));
  const cell = cells.find(each => each && area.contains(each));
  const tab = cell?.dataset.active;
  if (!cell || !tab) return null;
  const box = cell.getBoundingClientRect();
  const place = placeIn((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  const outer = area.getBoundingClientRect();
  const [x, y, width, height] = SHADED[place];
  mark.hidden = false;
  Object.assign(mark.style, {
    left: `${box.left - outer.left + x * box.width}px`, top: `${box.top - outer.top + y * box.height}px`,
    width: `${width * box.width}px`, height: `${height * box.height}px`,
  });
  return { tab, place };
}

/** What part of a cell a point means, given as shares of its width and height. */
export function placeIn(x: number, y: number): DropPlace {
  const distances: [number, DropPlace][] = [[x, "left"], [1 - x, "right"], [y, "up"], [1 - y, "down"]];
  const [nearest, place] = distances.reduce((best, each) => (each[0] < best[0] ? each : best));
  return nearest < EDGE ? place : "into";
}

const SHADED: { readonly [place in DropPlace]: readonly [number, number, number, number] } = {
  left: [0, 0, 0.5, 1], right: [0.5, 0, 0.5, 1], up: [0, 0, 1, 0.5], down: [0, 0.5, 1, 0.5], into: [0, 0, 1, 1],
};

const STEP = 0.03;

function Split(
  parts: readonly HTMLElement[], orientation: "horizontal" | "vertical", resize: (shares: readonly number[]) => void,
) {
  let current: readonly number[] = [];
  const across = (): boolean => orientation === "vertical";
  const borders = parts.slice(1).map((_, at) => border(at));
  /** The parts and the borders between them. */
  const elements = parts.flatMap((part, n) => [...(n > 0 ? [borders[n - 1] as HTMLElement] : []), part]);

  /** Gives each part its share of the whole. */
  function size(shares: readonly number[]): void {
    current = shares;
    parts.forEach((part, n) => (part.style.flexGrow = String(current[n])));
    let before = 0;
    borders.forEach((border, n) => {
      before += current[n] ?? 0;
      aria(border, "valuenow", Math.round(100 * before));
    });
  }

  function border(at: number): HTMLElement {
    const border = h("div.ex-splitter", {
      role: "separator", tabindex: 0, "aria-orientation": orientation,
      "aria-label": across() ? "Border between columns" : "Border between rows", "aria-valuemin": 0,
      "aria-valuemax": 100, "aria-valuenow": 50,
    });
    on(border, "keydown", event => {
      const by = { ArrowLeft: -STEP, ArrowUp: -STEP, ArrowRight: STEP, ArrowDown: STEP }[event.key];
      if (by === undefined) return;
      taken(event);
      resize(resized(current, at, by));
    });
    on(border, "dblclick", () => resize(current.map(() => 1 / current.length)));
    on(border, "pointerdown", down => drag(border, at, down));
    return border;
  }

  function drag(border: HTMLElement, at: number, down: PointerEvent): void {
    const whole = sum(parts, part => (across() ? part.offsetWidth : part.offsetHeight));
    const place = (event: PointerEvent) => (across() ? event.clientX : event.clientY);
    const started = current;
    const move = (event: PointerEvent) => resize(resized(started, at, (place(event) - place(down)) / whole));
    border.setPointerCapture(down.pointerId);
    on(border, "lostpointercapture", on(border, "pointermove", move), { once: true });
  }

  return { elements, size };
}

type Split = ReturnType<typeof Split>;

/** Parts and the borders between them, of these shares until a border is moved. */
export function divided(parts: readonly HTMLElement[], orientation: "horizontal" | "vertical",
    shares: readonly number[]): readonly HTMLElement[] {
  const split: Split = Split(parts, orientation, moved => split.size(moved));
  split.size(shares);
  return split.elements;
}
