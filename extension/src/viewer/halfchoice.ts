// Which half of a compile a pane looks at: the one of the stage that was chosen last, or the one picked here.

import { button, fill, h } from "./dom";
import type { Context } from "./pane";
import type { CompileData, HalfData } from "./record";
import { ends, type Readable, Signal } from "./signal";
import { halfName } from "./stages";

export interface Looked {
  readonly compile: CompileData;
  readonly half: HalfData;
}

export function HalfChoice(context: Context) {
  /** Hidden where there is but one half. */
  const element = h("div.ex-choices", { role: "group", "aria-label": "Half" });
  const found = new Signal<Looked | null>(null);
  const wanted = new Signal("");
  const compileNow = (): CompileData | undefined => context.looked.value;
  const dispose = ends(
    context.stage.watch(id => {
      const half = compileNow()?.stages?.find(each => each.id === id)?.half;
      if (half) wanted.value = half;
    }),
    context.looked.watch(follow), wanted.watch(follow),
  );

  /** Looks at the half that has an element, where one does. */
  function showWith(has: (half: HalfData) => boolean): void {
    const half = found.value && has(found.value.half) ? null : compileNow()?.halves?.find(has);
    if (half) wanted.value = half.name;
  }

  function follow(): void {
    const compile = compileNow();
    const halves = compile?.halves ?? [];
    const half = halves.find(each => each.name === wanted.value) ?? halves[0];
    const before = found.value;
    if (compile && half && (before?.compile !== compile || before.half !== half)) found.value = { compile, half };
    else if (!compile || !half) found.value = null;
    element.hidden = halves.length < 2;
    fill(element, ...halves.map(each => {
      const name = compile ? halfName(compile, each.name) || each.name : each.name;
      return button("ex-choice", name, () => (wanted.value = each.name), { "aria-pressed": String(each === half) });
    }));
  }

  return { element, showWith, dispose, looked: found as Readable<Looked | null> };
}

export type HalfChoice = ReturnType<typeof HalfChoice>;
