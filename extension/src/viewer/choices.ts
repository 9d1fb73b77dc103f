// Buttons side by side: one of a few, and filters that can each be on or off (with none on, everything is shown).

import { aria, button, h, fill, named } from "./dom";
import type { Dispose, Signal } from "./signal";

/** Buttons of which the one that is chosen is pressed. */
export function choices<T extends string>(
  name: string, of: readonly (readonly [choice: string, label: string, title?: string])[], chosen: Signal<T>,
): { readonly element: HTMLElement; readonly end: Dispose } {
  const all =
    of.map(([choice, label, title]) =>
      [choice, button("ex-choice", label, () => (chosen.value = choice as T), { title })] as const);
  const end = chosen.watch(value => all.forEach(([choice, made]) => aria(made, "pressed", choice === value)));
  return { element: h("div.ex-choices", { role: "group", "aria-label": name }, ...all.map(([, made]) => made)), end };
}

interface Facet {
  readonly id: string;
  readonly label: string;
  readonly count: number;
}

export function Facets(label: string, chosen: Signal<readonly string[]>) {
  const element = h("div.ex-facets", { role: "group", "aria-label": label });

  function show(facets: readonly Facet[]): void {
    const focused =
      element.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.facet : undefined;
    fill(element, ...facets.map(each => {
      const made = button("ex-facet", each.label, () => toggle(each.id), {
        "data-facet": each.id, "aria-pressed": String(chosen.value.includes(each.id)),
      });
      made.append(h("span.ex-count", String(each.count)));
      return made;
    }));
    if (focused !== undefined) named(element, "data-facet", focused)?.focus();
  }

  function toggle(id: string): void {
    const now = chosen.value;
    chosen.value = now.includes(id) ? now.filter(each => each !== id) : [...now, id];
  }

  return { element, show };
}

/** How many rows there are of each, the most frequent first. */
export function facetsOf<Row>(rows: readonly Row[], id: (row: Row) => string, label: (row: Row) => string): Facet[] {
  const found = new Map<string, Facet>();
  for (const row of rows) {
    const old = found.get(id(row));
    found.set(id(row), { id: id(row), label: old?.label ?? label(row), count: (old?.count ?? 0) + 1 });
  }
  return [...found.values()].sort((a, b) => b.count - a.count || (a.label < b.label ? -1 : 1));
}
