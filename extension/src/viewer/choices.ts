// One of a few, as buttons side by side.

import { aria, button, h } from "./dom";
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
