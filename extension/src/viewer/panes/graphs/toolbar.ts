// The choices above the graph: which one, how it is shown, grouped and coloured.

import { choices } from "../../choices";
import { button, h, tool } from "../../dom";
import { count } from "../../format";
import type { Context } from "../../pane";
import type { Dispose, Signal } from "../../signal";
import type { Grouping } from "./groups";
import { COLOURINGS, type Colouring } from "./paint";
import type { View } from "./views";

const SHOWN = { drawing: "Drawing", table: "Table", text: "Text" } as const;
export type Shown = keyof typeof SHOWN;

const GROUPINGS: { readonly [by in Grouping]: string } = { module: "module", kernel: "kernel", none: "nothing" };

export interface Settings {
  readonly shown: Signal<Shown>;
  readonly by: Signal<Grouping>;
  readonly colouring: Signal<Colouring>;
  readonly changes: Signal<boolean>;
  readonly kept: Signal<boolean>;
  readonly beside: Signal<boolean>;
  readonly legend: Signal<boolean>;
}

/** The settings with what was remembered, as far as it can still be chosen. */
export function settingsOf(context: Pick<Context, "setting">): Settings {
  const one = <T extends string>(name: string, choices: { readonly [name in T]: string }, initial: T): Signal<T> => {
    const signal = context.setting<T>(name, initial);
    if (!(signal.value in choices)) signal.value = initial;
    return signal;
  };
  return {
    shown: one<Shown>("shown", SHOWN, "drawing"), by: one<Grouping>("by", GROUPINGS, "module"),
    colouring: one<Colouring>("colouring", COLOURINGS, "operation"),
    changes: context.setting<boolean>("changes", true), kept: context.setting<boolean>("kept", false),
    beside: context.setting<boolean>("beside", false), legend: context.setting<boolean>("legend", true),
  };
}

/** What can be chosen for the view that is shown. */
export interface Offer {
  readonly views: readonly View[];
  readonly view: View | undefined;
  /** What the last pass did, "+2 −9", by view; "" for nothing. */
  readonly did: ReadonlyMap<string, string>;
  /** Whether the pass before the view changed anything. */
  readonly changed: boolean;
  readonly kept: boolean;
  readonly eager: boolean;
}

export class Toolbar {
  readonly element: HTMLElement;
  readonly #views = h("select.ex-select", { "aria-label": "Graph" });
  readonly #back: HTMLButtonElement;
  readonly #on: HTMLButtonElement;
  readonly #drawn: HTMLElement;
  readonly #next: HTMLElement;
  readonly #toggles: { readonly [name in "changes" | "kept" | "beside" | "legend"]: HTMLElement };
  readonly #disposers: Dispose[] = [];

  constructor(settings: Settings, choose: (id: string) => void, all: (open: boolean) => void, change: () => void) {
    const step = (by: number) => () => {
      const option = this.#views.options[this.#views.selectedIndex + by];
      if (option) choose(option.value);
    };
    this.#back = tool("◂", "The graph before", step(-1));
    this.#on = tool("▸", "The graph after", step(1));
    this.#views.addEventListener("change", () => choose(this.#views.value));
    this.#toggles = {
      changes: this.#toggle("Changes", "Mark what the pass added, removed and changed", settings.changes),
      kept: this.#toggle("Saved", "List what is saved for the backward and what is recomputed, with reasons", settings.kept),
      beside: this.#toggle("Eager beside", "Eager's autograd graph (grad_fn) beside this one", settings.beside),
      legend: this.#toggle("Legend", "What colours and marks say", settings.legend),
    };
    this.#next = button("ex-button", "Next change", change, { title: "Go to the next node that the pass changed" });
    this.#drawn = h(
      "span.ex-g-drawn",
      this.#select("Group by", GROUPINGS, settings.by), this.#select("Colour", COLOURINGS, settings.colouring),
      tool("⊞", "Open all groups", () => all(true), "Open all groups, as far as the picture stays readable"),
      tool("⊟", "Close all groups", () => all(false)),
      this.#toggles.legend,
    );
    const shown = choices("Shown as", SHOWN, settings.shown);
    this.element = h(
      "div.ex-bar.ex-g-tools",
      h("span.ex-g-stepper", this.#back, this.#views, this.#on),
      shown.element,
      this.#toggles.changes, this.#next, this.#toggles.kept, this.#toggles.beside, this.#drawn,
    );
    this.#disposers.push(shown.end, settings.shown.watch(value => (this.#drawn.hidden = value !== "drawing")));
  }

  offer({ views, view, did, changed, kept, eager }: Offer): void {
    const options = views.map(each => {
      const what = did.get(each.id) || count(each.graph.nodes.length, "node");
      return h("option", { value: each.id }, `${each.title}  (${each.kind === each.title ? "" : `${each.kind}, `}${what})`);
    });
    this.element.hidden = views.length === 0;
    this.#views.replaceChildren(...options);
    this.#views.value = view?.id ?? "";
    this.#back.disabled = this.#views.selectedIndex <= 0;
    this.#on.disabled = this.#views.selectedIndex >= views.length - 1;
    this.#toggles.changes.hidden = !view?.before;
    this.#next.hidden = !changed;
    this.#toggles.kept.hidden = !kept;
    this.#toggles.beside.hidden = !eager;
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
  }

  #toggle(label: string, title: string, signal: Signal<boolean>): HTMLElement {
    const made = button("ex-button", label, () => (signal.value = !signal.value), { title });
    this.#disposers.push(signal.watch(on => made.setAttribute("aria-pressed", String(on))));
    return made;
  }

  #select<T extends string>(label: string, choices: { readonly [name in T]: string }, signal: Signal<T>): HTMLElement {
    const select = h("select.ex-select", { "aria-label": label }, ...Object.entries(choices).map(([value, text]) => h("option", { value }, text as string)));
    select.addEventListener("change", () => (signal.value = select.value as T));
    this.#disposers.push(signal.watch(value => (select.value = value)));
    return h("span.ex-g-choice", h("span.ex-g-word", { "aria-hidden": "true" }, label), select);
  }
}
