// One method beside others: what is known of it, and the texts of what it captured.

import type { DataTable } from "../datatable";
import { button, fill, h, named } from "../dom";
import { fileName } from "../filename";
import { phrase } from "../format";
import type { Links } from "../links";
import type { Palette } from "../palette";
import type { Export } from "../pane";
import type { Selection } from "../selection";
import type { Signal } from "../signal";
import type { FileNames } from "../sources";
import { TextView } from "../textview";
import type { MethodData, MethodsData, OperationCallData, TriedInputData } from "./data";
import { operationTable } from "./operations";
import { textRows } from "./program";
import { EAGER, outcome, summary, times, told, verdictOn } from "./verdicts";

const ABOUT = "About";
const OPERATIONS = "Operations";

/** What the parts of the view have in common. */
export interface Shared {
  readonly data: MethodsData;
  readonly selection: Selection;
  readonly model: { readonly links: Signal<Links>; readonly palette: Signal<Palette> };
  readonly files: FileNames;
}

export class MethodColumn {
  readonly element: HTMLElement;
  readonly #choices: HTMLElement;
  readonly #body = h("div.ex-body-text");
  readonly #names: readonly string[];
  readonly #method: MethodData;
  readonly #shared: Shared;
  #chosen: string;
  #shown: TextView | DataTable<OperationCallData> | null = null;

  constructor(method: MethodData, shared: Shared, close: () => void) {
    this.#method = method;
    this.#shared = shared;
    this.#choices = h("div.ex-choices", { role: "group", "aria-label": `${method.name}: shown` });
    const views = (method.views ?? []).map(each => each.title);
    const operations = method.name === EAGER && shared.data.operations?.length ? [OPERATIONS] : [];
    this.#names = [...operations, ...views, ABOUT];
    this.#chosen = this.#names[0] ?? ABOUT;
    this.element = h(
      "section.ex-column", { "aria-label": method.name },
      h("div.ex-bar",
        h("h2", method.name), this.#choices,
        h("div.ex-tools", button("ex-button", "×", close, { "aria-label": `Close ${method.name}`, title: "Close" }))),
      h("div.ex-facts-line", summary(method)),
      this.#body,
    );
    this.#render();
  }

  /** What came of an input. */
  open(input: TriedInputData): void {
    this.#chosen = ABOUT;
    this.#render();
    const card = named(this.#body, "data-input", input.name) ?? this.#body.querySelector<HTMLElement>(".ex-cards");
    card?.scrollIntoView({ block: "nearest" });
    card?.focus({ preventScroll: true });
  }

  exports(): readonly Export[] {
    const shown = this.#shown;
    const text = shown instanceof TextView ? () => shown.text : shown ? () => shown.text() : () => this.#body.innerText;
    return [{ kind: "txt", name: fileName(`${this.#method.name} ${this.#chosen}`), make: async () => text() }];
  }

  dispose(): void {
    this.#shown?.dispose();
  }

  #render(): void {
    this.dispose();
    this.#shown = null;
    fill(this.#choices, ...this.#names.map(name => button("ex-choice", name, () => {
        this.#chosen = name;
        this.#render();
        this.#choices.querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
      }, { "aria-pressed": String(name === this.#chosen) })));
    const view = this.#method.views?.find(each => each.title === this.#chosen);
    const { data, selection, files, model } = this.#shared;
    fill(this.#body);
    if (view) {
      this.#shown = new TextView(this.#body, this.#shared);
      this.#shown.show({ rows: textRows(view.text, model.palette.value), language: view.text.language ?? "text", label: `${view.title} of ${this.#method.name}` });
    } else if (this.#chosen === OPERATIONS) {
      this.#shown = operationTable(data, selection, files);
      this.#body.append(h("div.ex-m-scroll", { tabindex: 0, role: "region", "aria-label": "Eager's operations" }, this.#shown.element));
    } else {
      this.#body.append(this.#about());
    }
  }

  #about(): HTMLElement {
    const method = this.#method;
    const made = !outcome(method);
    const code = (text: string) => h("pre.ex-m-said", text);
    const facts: [name: string, what: (Node | string)[]][] = [
      ["how it captures", [method.how]],
      ["not here", method.missing ? [method.missing] : []],
      ["it refused with", method.error ? [code(method.error)] : []],
      ["which means", method.meaning ? [method.meaning] : method.error ? ["Nothing more is known of this error."] : []],
      ["control flow", method.control ? [method.control] : []],
      ["dynamic shapes", method.sizes ? [method.sizes] : []],
      ["baked in", made ? [method.baked?.length ? `✗ ${method.baked.join(", ")}` : "nothing of what was tried"] : []],
      ["recompiled", made && method.kept?.length ? [method.kept.join(", ")] : []],
      ["it warned", (method.said ?? []).map(code)],
      ["time", [times(method).join(", ")].filter(Boolean)],
      ["saved", method.saved ? [method.saved] : []],
      ["to load it", method.runs_without_python ? [method.runs_without_python] : []],
    ];
    const list = facts.filter(([, what]) => what.length > 0).flatMap(([name, what]) => [h("dt", name), h("dd", ...what)]);
    const cards = this.#shared.data.inputs.flatMap(input => this.#card(input));
    return h("div.ex-cards", { tabindex: 0, role: "region", "aria-label": `About ${method.name}` }, h("dl.ex-facts.ex-m-facts", ...list), ...cards);
  }

  #card(input: TriedInputData): HTMLElement[] {
    const verdict = verdictOn(this.#method, input);
    if (!verdict) return [];
    const error = verdict.error ? `largest difference ${verdict.error.toPrecision(3)}` : "";
    const facts = [["the input", `${input.change}: ${input.arguments}`], ["eager gives", input.expected ?? ""], ["this", phrase([verdict.detail, error], "; ")]] as const;
    const rows = facts.filter(([, what]) => what).flatMap(([name, what]) => [h("dt", name), h("dd", what)]);
    return [h(
      "section", { class: `ex-card ex-m-card-${verdict.answer.replace(" ", "-")}`, "data-input": input.name, tabindex: -1 },
      h("h3", `${told(verdict)}: ${input.name}`), h("dl.ex-facts", ...rows),
    )];
  }
}
