// What a pane is, and which half of a compile it looks at. Panes know the model, the selection and the place they look
// at, and nothing of each other.

import type { Edits } from "./kernelupdates";
import type { Key } from "./element";
import type { Host, Json } from "./host";
import type { Model } from "./model";
import type { Selection } from "./selection";
import type { Abilities } from "./protocol";
import type { CompileData, HalfData } from "./record";
import { type Readable, Signal, ends } from "./signal";
import type { Walk } from "./walk";
import { button, fill, h } from "./dom";
import { halfName } from "./stages";

export interface PaneKind {
  /** Also the name that `%%explore --stage` takes. */
  readonly id: string;
  readonly title: string;
  open(into: HTMLElement, context: Context): Pane;
}

export interface Context {
  readonly model: Model;
  readonly selection: Selection;
  readonly host: Host;
  /** The id of the compile that all panes look at. */
  readonly compile: Signal<string>;
  readonly looked: Readable<CompileData | undefined>;
  /** The id of the stage that all panes look at, in that compile. */
  readonly stage: Signal<string>;
  /** The step of capture that the compile is looked at as of; -1 for none. */
  readonly step: Signal<number>;
  /** The query whose hits are the breakpoints in the capture's steps. */
  readonly breakpoint: Signal<string>;
  /** What the live kernel can do; null where there is none, or it has not said yet. */
  readonly abilities: Readable<Abilities | null>;
  readonly edits: Edits;
  /** A setting of this pane that is remembered with the notebook. */
  setting<T extends Json>(name: string, initial: T): Signal<T>;
  /** Opens the pane `id` (if need be) and has it show `what`, which is pinned. */
  show(id: string, what: Key | null): void;
  save(what: Export): void;
  /** Opens the catalogue's page of a reason. */
  reason(code: string): void;
}

export interface Pane {
  /** What it goes through step by step, and which half of a compile it looks at. */
  readonly walk?: Walk;
  readonly choice?: { readonly looked: Readable<{ readonly half: HalfData } | null>;
  showWith(has: (half: HalfData) => boolean): void };
  /** Brings an element into view where this pane shows it; false where it does not. */
  reveal(what: Key): boolean;
  /** What can be saved of it: file name without suffix, and how it is made. */
  exports(): readonly Export[];
  dispose(): void;
}

export interface Export {
  readonly kind: "svg" | "png" | "txt" | "py" | "json";
  readonly name: string;
  make(): Promise<string | Blob>;
}

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
