// Rows and marks that stand for elements of the record: they show what is selected, and select what they stand for.

import { on, taken } from "./dom";
import type { Key } from "./element";
import { entry } from "./gather";
import { Roving } from "./roving";
import type { Selection } from "./selection";
import type { Dispose } from "./signal";

type Mark = HTMLElement | SVGElement;

/** The marks of one drawing or table. They take part in the one selection, and arrow keys walk them as one tab stop. */
export class Linked {
  readonly #keys = new Map<Element, readonly Key[]>();
  readonly #marks = new Map<Key, Set<Mark>>();
  #hot = new Set<Mark>();
  readonly #roving = new Roving();
  readonly #disposers: Dispose[] = [];
  readonly #root: HTMLElement;
  readonly #selection: Selection;
  /** What a click does beside pinning. */
  readonly #chosen: (of: Key, mark: Element) => void;

  constructor(root: HTMLElement, selection: Selection, chosen: (of: Key, mark: Element) => void = () => undefined) {
    this.#root = root;
    this.#selection = selection;
    this.#chosen = chosen;
    const listen = <Type extends keyof HTMLElementEventMap>(name: Type, listener: (event: HTMLElementEventMap[Type]) => void) => {
      this.#disposers.push(on(root, name, listener));
    };
    listen("pointerover", event => this.#hover(this.#markOf(event.target)));
    listen("pointerleave", () => this.#hover(null));
    listen("focusin", event => {
      const mark = this.#markOf(event.target);
      if (mark) this.#roving.focused(mark);
      if (mark?.matches(":focus-visible")) this.#hover(mark);
    });
    listen("focusout", () => this.#hover(null));
    listen("click", event => {
      const mark = this.#markOf(event.target);
      if (mark && !controlIn(mark, event.target)) this.#choose(mark);
    });
    listen("keydown", event => this.#key(event));
    this.#disposers.push(
      selection.chain.watch(chain => this.#show(chain)),
      selection.pinned.watch(() => this.#showPinned()),
    );
  }

  /** Forgets all marks: what they were drawn in is about to be drawn again. */
  clear(): void {
    this.#keys.clear();
    this.#marks.clear();
    this.#hot.clear();
    this.#roving.clear();
  }

  /** `own` is what hovering and clicking select; the mark is lit for each of `also` as well. */
  add<M extends Mark>(mark: M, own: Key, ...also: readonly Key[]): M {
    const keys = [own, ...also];
    this.#keys.set(mark, keys);
    mark.classList.add("ex-linked");
    this.#roving.add(mark);
    for (const each of keys) entry(this.#marks, each, () => new Set()).add(mark);
    if (keys.some(each => this.#selection.chain.value.has(each))) this.#light(mark);
    mark.classList.toggle("ex-pinned", own === this.#selection.pinned.value);
    return mark;
  }

  /** Scrolls to what shows `of`, itself or by what is linked to it; false where nothing does. */
  reveal(of: Key): boolean {
    const [mark] = this.#marks.get(of) ?? [];
    mark?.scrollIntoView({ block: "nearest", inline: "nearest" });
    return mark !== undefined;
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#hover(null);
    this.clear();
  }

  #markOf(target: EventTarget | null): Mark | null {
    for (let at = target instanceof Element ? target : null; at && at !== this.#root; at = at.parentElement) {
      if (this.#keys.has(at)) return at as Mark;
    }
    return null;
  }

  #hover(mark: Mark | null): void {
    this.#selection.hovered.value = mark ? (this.#keys.get(mark)?.[0] ?? null) : null;
  }

  #choose(mark: Mark): void {
    const own = this.#keys.get(mark)?.[0];
    if (own === undefined) return;
    this.#selection.pin(own);
    this.#chosen(own, mark);
  }

  #key(event: KeyboardEvent): void {
    const mark = this.#markOf(event.target);
    if (!mark || mark !== event.target || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") this.#choose(mark);
    else if (!this.#roving.key(event, mark)) return;
    taken(event);
  }

  #show(chain: ReadonlySet<Key>): void {
    const before = this.#hot;
    this.#hot = new Set();
    const [fewer, has] = chain.size < this.#marks.size ? [chain, this.#marks] as const : [this.#marks.keys(), chain] as const;
    for (const each of fewer) if (has.has(each)) this.#marks.get(each)?.forEach(mark => this.#light(mark));
    for (const mark of before) if (!this.#hot.has(mark)) mark.classList.remove("ex-hot", "ex-near");
  }

  #light(mark: Mark): void {
    this.#hot.add(mark);
    const look = this.#selection.look(this.#keys.get(mark) ?? []);
    mark.classList.toggle("ex-hot", look === "ex-hot");
    mark.classList.toggle("ex-near", look === "ex-near");
  }

  #showPinned(): void {
    for (const [mark, [own]] of this.#keys) mark.classList.toggle("ex-pinned", own === this.#selection.pinned.value);
  }
}

/** Whether a button or field inside the mark was meant. */
function controlIn(mark: Element, target: EventTarget | null): boolean {
  const control = target instanceof Element ? target.closest("button, a, input, select, summary, textarea") : null;
  return control !== null && control !== mark && mark.contains(control);
}
