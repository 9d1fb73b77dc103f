// One selection for all panes: what the pointer or the keyboard is on, and what a click pinned.

import { type Key, key, parts } from "./element";
import type { Links } from "./links";
import { Derived, type Dispose, ends, onChange, type Readable, Signal } from "./signal";

const EMPTY: ReadonlySet<Key> = new Set();

export function Selection(links: Readable<Links>) {
  const hovered = new Signal<Key | null>(null);
  const pinned = new Signal<Key | null>(null);
  /** Pins `of`, or lets go of it where it is pinned already. */
  const pin = (of: Key | null) => (pinned.value = pinned.value === of ? null : of);
  /** The whole chain of what is hovered, or else of what is pinned: what every pane highlights. */
  const chained = new Derived<ReadonlySet<Key>>([hovered, pinned, links], () => {
    const of = hovered.value ?? pinned.value;
    return of === null ? EMPTY : links.value.chain(of);
  });

  /** The class by which an element shows that it is in the chain: its own part of it strong, a shared one faint. */
  function look(of: readonly Key[]): "ex-hot" | "ex-near" | "" {
    const [chain, lead] = [chained.value, hovered.value ?? pinned.value];
    const lit = lead === null ? [] : of.filter(each => chain.has(each));
    return lit.length === 0 ? "" : lit.some(each => links.value.direct(lead!, each)) ? "ex-hot" : "ex-near";
  }

  return { hovered, pinned, chain: chained, look, pin };
}

export type Selection = ReturnType<typeof Selection>;

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
