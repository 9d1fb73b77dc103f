// Which groups are open, remembered by compile, family and grouping while the pane is there.

import { type Group, type Grouping } from "./groups";
import type { Subject } from "./subject";
import type { View } from "./views";

export class Openings {
  readonly #ids = new Map<string, ReadonlySet<string>>();

  /** What sets of open groups are told apart by. */
  name(subject: Subject, view: View, by: Grouping): string {
    return `${subject.compile.id} ${view.family} ${by}`;
  }

  of(subject: Subject, view: View, by: Grouping): Set<Group> {
    return subject.open(by, this.#ids.get(this.name(subject, view, by)));
  }

  set(subject: Subject, view: View, by: Grouping, open: ReadonlySet<Group>): void {
    this.#ids.set(this.name(subject, view, by), new Set([...open].map(group => group.id)));
  }
}
