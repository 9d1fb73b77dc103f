// One selection for all panes: what the pointer or the keyboard is on, and what a click pinned.

import { type Key, key, parts } from "./element";
import type { Links } from "./links";
import { Derived, type Dispose, ends, onChange, type Readable, Signal } from "./signal";

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

/** Keeps two selections in step; an element of the one's compile stands for that of the same id in the other's. */
export function couple(one: Selection, compile: string, other: Selection, counterpart: string): Dispose {
  const follow = (from: Selection, to: Selection, own: string, theirs: string) => {
    const moved = (what: Key | null) => {
      if (what === null) return null;
      const { compile: of, id } = parts(what);
      return of === own ? key(theirs, id) : what;
    };
    return [
      onChange(from.hovered, what => (to.hovered.value = moved(what))),
      onChange(from.pinned, what => (to.pinned.value = moved(what))),
    ];
  };
  return ends(...follow(one, other, compile, counterpart), ...follow(other, one, counterpart, compile));
}
