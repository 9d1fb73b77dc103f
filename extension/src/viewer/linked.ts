// Rows and marks that stand for elements of the record: they show what is selected, and select what they stand for.
// Arrow keys walk them as one tab stop.

import { on, taken } from "./dom";
import type { Key } from "./element";
import { entry } from "./collections";
import type { Selection } from "./selection";
import { ends } from "./signal";

/** The marks of one drawing or table. They take part in the one selection, and arrow keys walk them as one tab stop. */
export function Linked(
  root: HTMLElement, selection: Selection, chosen: (of: Key, mark: Element) => void = () => undefined,
) {
  const keysOf = new Map<Element, readonly Key[]>();
  const marks = new Map<Key, Set<Focusable>>();
  let hot = new Set<Focusable>();
  const roving = RovingTabindex();
  const hover = (mark: Focusable | null) => (selection.hovered.value = mark ? (keysOf.get(mark)?.[0] ?? null) : null);
  const dispose = ends(
    on(root, "pointerover", event => hover(markOf(event.target))),
    on(root, "pointerleave", () => hover(null)),
    on(root, "focusin", event => {
      const mark = markOf(event.target);
      if (mark) roving.focused(mark);
      if (mark?.matches(":focus-visible")) hover(mark);
    }),
    on(root, "focusout", () => hover(null)),
    on(root, "click", event => {
      const mark = markOf(event.target);
      if (mark && !controlIn(mark, event.target)) choose(mark);
    }),
    on(root, "keydown", key), selection.chain.watch(show), selection.pinned.watch(showPinned), () => hover(null), clear,
  );

  /** Forgets all marks: what they were drawn in is about to be drawn again. */
  function clear(): void {
    keysOf.clear();
    marks.clear();
    hot.clear();
    roving.clear();
  }

  /** `own` is what hovering and clicking select; the mark is lit for each of `also` as well. */
  function add<M extends Focusable>(mark: M, own: Key, ...also: readonly Key[]): M {
    const keys = [own, ...also];
    keysOf.set(mark, keys);
    mark.classList.add("ex-linked");
    roving.add(mark);
    for (const each of keys) entry(marks, each, () => new Set()).add(mark);
    if (keys.some(each => selection.chain.value.has(each))) light(mark);
    mark.classList.toggle("ex-pinned", own === selection.pinned.value);
    return mark;
  }

  /** Scrolls to what shows `of`, itself or by what is linked to it; false where nothing does. */
  function reveal(of: Key): boolean {
    const [mark] = marks.get(of) ?? [];
    mark?.scrollIntoView({ block: "nearest", inline: "nearest" });
    return mark !== undefined;
  }

  function markOf(target: EventTarget | null): Focusable | null {
    for (let at = target instanceof Element ? target : null; at && at !== root; at = at.parentElement) {
      if (keysOf.has(at)) return at as Focusable;
    }
    return null;
  }

  function choose(mark: Focusable): void {
    const own = keysOf.get(mark)?.[0];
    if (own === undefined) return;
    selection.pin(own);
    chosen(own, mark);
  }

  function key(event: KeyboardEvent): void {
    const mark = markOf(event.target);
    if (!mark || mark !== event.target || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") choose(mark);
    else if (!roving.key(event, mark)) return;
    taken(event);
  }

  function show(chain: ReadonlySet<Key>): void {
    const before = hot;
    hot = new Set();
    const [fewer, has] = chain.size < marks.size ? [chain, marks] as const : [marks.keys(), chain] as const;
    for (const each of fewer) if (has.has(each)) marks.get(each)?.forEach(mark => light(mark));
    for (const mark of before) if (!hot.has(mark)) mark.classList.remove("ex-hot", "ex-near");
  }

  function light(mark: Focusable): void {
    hot.add(mark);
    const look = selection.look(keysOf.get(mark) ?? []);
    mark.classList.toggle("ex-hot", look === "ex-hot");
    mark.classList.toggle("ex-near", look === "ex-near");
  }

  function showPinned(): void {
    for (const [mark, [own]] of keysOf) mark.classList.toggle("ex-pinned", own === selection.pinned.value);
  }

  return { clear, add, reveal, dispose };
}

export type Linked = ReturnType<typeof Linked>;

/** Whether a button or field inside the mark was meant. */
function controlIn(mark: Element, target: EventTarget | null): boolean {
  const control = target instanceof Element ? target.closest("button, a, input, select, summary, textarea") : null;
  return control !== null && control !== mark && mark.contains(control);
}

type Focusable = HTMLElement | SVGElement;

export function RovingTabindex() {
  let order: Focusable[] = [];
  const clear = () => (order = []);

  function add(mark: Focusable): void {
    mark.setAttribute("tabindex", order.length === 0 ? "0" : "-1");
    order.push(mark);
  }

  /** Tab comes back to the mark that had the focus last. */
  function focused(mark: Focusable): void {
    for (const each of order) if (each.tabIndex === 0 && each !== mark) each.setAttribute("tabindex", "-1");
    mark.setAttribute("tabindex", "0");
  }

  /** Moves the focus from a mark where the key asks for it; whether it did. */
  function key(event: KeyboardEvent, from: Focusable): boolean {
    const at = order.indexOf(from);
    const to = {
      ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: order.length - 1,
    }[event.key];
    const next = at < 0 || to === undefined ? undefined : order[to];
    next?.focus();
    return next !== undefined;
  }

  return { add, clear, focused, key };
}
