// Which groups are open, remembered by compile, family and grouping while the pane is there.

import { type Group, type Grouping } from "./groups";
import type { Subject } from "./subject";
import type { View } from "./views";

export function Openings() {
  const ids = new Map<string, ReadonlySet<string>>();
  /** What sets of open groups are told apart by. */
  const name = (subject: Subject, view: View, by: Grouping): string => `${subject.compile.id} ${view.family} ${by}`;

  function of(subject: Subject, view: View, by: Grouping): Set<Group> {
    return subject.open(by, ids.get(name(subject, view, by)));
  }

  function set(subject: Subject, view: View, by: Grouping, open: ReadonlySet<Group>): void {
    ids.set(name(subject, view, by), new Set([...open].map(group => group.id)));
  }

  return { name, of, set };
}

export type Openings = ReturnType<typeof Openings>;
