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

  constructor(links: Readable<Links>) {
    this.chain = new Derived<ReadonlySet<Key>>([this.hovered, this.pinned, links], () => {
      const of = this.hovered.value ?? this.pinned.value;
      return of === null ? EMPTY : links.value.chain(of);
    });
  }

  /** Pins `of`, or lets go of it where it is pinned already. */
  pin(of: Key | null): void {
    this.pinned.value = this.pinned.value === of ? null : of;
  }
}
