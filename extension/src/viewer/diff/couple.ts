// One selection for two records: what is hovered or pinned in one is in the other too.

import { type Key, key, parts } from "../element";
import type { Selection } from "../selection";
import { type Dispose, onChange } from "../signal";

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
  const disposers = [...follow(one, other, compile, counterpart), ...follow(other, one, counterpart, compile)];
  return () => disposers.forEach(dispose => dispose());
}
