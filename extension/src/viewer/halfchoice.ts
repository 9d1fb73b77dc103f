// Which half of a compile a pane looks at: the one of the stage that was chosen last, or the one picked here.

import { button, fill, h } from "./dom";
import type { Context } from "./pane";
import type { CompileData, HalfData } from "./record";
import { type Dispose, type Readable, Signal } from "./signal";
import { halfName } from "./stages";

export interface Looked {
  readonly compile: CompileData;
  readonly half: HalfData;
}

export class HalfChoice {
  /** Hidden where there is but one half. */
  readonly element = h("div.ex-choices", { role: "group", "aria-label": "Half" });
  readonly #found = new Signal<Looked | null>(null);
  readonly #wanted = new Signal("");
  readonly #disposers: Dispose[];
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
    const follow = () => this.#follow();
    this.#disposers = [
      context.stage.watch(id => {
        const half = this.#compile?.stages?.find(each => each.id === id)?.half;
        if (half) this.#wanted.value = half;
      }),
      context.looked.watch(follow), this.#wanted.watch(follow),
    ];
  }

  get looked(): Readable<Looked | null> {
    return this.#found;
  }

  /** Looks at the half that has an element, where one does. */
  showWith(has: (half: HalfData) => boolean): void {
    const half = this.#found.value && has(this.#found.value.half) ? null : this.#compile?.halves?.find(has);
    if (half) this.#wanted.value = half.name;
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
  }

  get #compile(): CompileData | undefined {
    return this.#context.looked.value;
  }

  #follow(): void {
    const compile = this.#compile;
    const halves = compile?.halves ?? [];
    const half = halves.find(each => each.name === this.#wanted.value) ?? halves[0];
    const before = this.#found.value;
    if (compile && half && (before?.compile !== compile || before.half !== half)) this.#found.value = { compile, half };
    else if (!compile || !half) this.#found.value = null;
    this.element.hidden = halves.length < 2;
    fill(this.element, ...halves.map(each => {
      const name = compile ? halfName(compile, each.name) || each.name : each.name;
      return button("ex-choice", name, () => (this.#wanted.value = each.name), { "aria-pressed": String(each === half) });
    }));
  }
}
