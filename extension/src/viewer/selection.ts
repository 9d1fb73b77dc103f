// One selection for all panes: what the pointer or the keyboard is on, and what a click pinned.

import type { Key } from "./element";
import type { Links } from "./links";
import { Derived, Signal, type Readable } from "./signal";

const EMPTY: ReadonlySet<Key> = new Set();

export class Selection {
  readonly hovered = new Signal<Key | null>(null);
  readonly pinned = new Signal<Key | null>(null);
  /** The whole chain of what is hovered, or else of what is pinned: what every pane highlights. */
  readonly chain: Readable<ReadonlySet<Key>>;

  readonly #links: Readable<Links>;

  constructor(links: Readable<Links>) {
    this.#links = links;
    this.chain = new Derived<ReadonlySet<Key>>([this.hovered, this.pinned, links], () => {
      const of = this.hovered.value ?? this.pinned.value;
      return of === null ? EMPTY : links.value.chain(of);
    });
  }

  /** The class by which an element shows that it is in the chain: its own part of it strong, a shared one faint. */
  look(of: readonly Key[]): "ex-hot" | "ex-near" | "" {
    const [chain, lead] = [this.chain.value, this.hovered.value ?? this.pinned.value];
    const lit = lead === null ? [] : of.filter(each => chain.has(each));
    return lit.length === 0 ? "" : lit.some(each => this.#links.value.direct(lead!, each)) ? "ex-hot" : "ex-near";
  }

  /** Pins `of`, or lets go of it where it is pinned already. */
  pin(of: Key | null): void {
    this.pinned.value = this.pinned.value === of ? null : of;
  }
}
