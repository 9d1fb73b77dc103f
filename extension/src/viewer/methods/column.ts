// One method beside others: what is known of it, and the texts of what it captured.

import type { DataTable } from "../datatable";
import { button, fill, h, named } from "../dom";
import { fileName, phrase } from "../format";
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
import { EAGER, outcome, summary, times, verdictText, verdictOn } from "./verdicts";

const ABOUT = "About";
const OPERATIONS = "Operations";

/** What the parts of the view have in common. */
export interface Shared {
  readonly data: MethodsData;
  readonly selection: Selection;
  readonly model: { readonly links: Signal<Links>; readonly palette: Signal<Palette> };
  readonly files: FileNames;
}

export function MethodColumn(method: MethodData, shared: Shared, close: () => void) {
  const body = h("div.ex-body-text");
  let chosen: string;
  let shownAs: TextView | DataTable<OperationCallData> | null = null;
  const dispose = () => shownAs?.dispose();
  const of = method;
  const choices = h("div.ex-choices", { role: "group", "aria-label": `${method.name}: shown` });
  const views = (method.views ?? []).map(each => each.title);
  const operations = method.name === EAGER && shared.data.operations?.length ? [OPERATIONS] : [];
  const names = [...operations, ...views, ABOUT];
  chosen = names[0] ?? ABOUT;
  const element = h(
    "section.ex-column", { "aria-label": method.name },
    h("div.ex-bar",
      h("h2", method.name), choices,
      h("div.ex-tools", button("ex-button", "×", close, { "aria-label": `Close ${method.name}`, title: "Close" }))),
    h("div.ex-facts-line", summary(method)),
    body,
  );
  render();

  /** What came of an input. */
  function open(input: TriedInputData): void {
    chosen = ABOUT;
    render();
    const card = named(body, "data-input", input.name) ?? body.querySelector<HTMLElement>(".ex-cards");
    card?.scrollIntoView({ block: "nearest" });
    card?.focus({ preventScroll: true });
  }

  function exports(): readonly Export[] {
    const make = async () => {
      const text = shownAs?.text ?? body.innerText;
      return typeof text === "string" ? text : text();
    };
    return [{ kind: "txt", name: fileName(`${of.name} ${chosen}`), make }];
  }

  function render(): void {
    dispose();
    shownAs = null;
    fill(choices, ...names.map(name => button("ex-choice", name, () => {
        chosen = name;
        render();
        choices.querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
      }, { "aria-pressed": String(name === chosen) })));
    const view = of.views?.find(each => each.title === chosen);
    const { data, selection, files, model } = shared;
    fill(body);
    if (view) {
      shownAs = TextView(body, shared);
      shownAs.show({ rows: textRows(view.text, model.palette.value), language: view.text.language ?? "text",
        label: `${view.title} of ${of.name}` });
    } else if (chosen === OPERATIONS) {
      shownAs = operationTable(data, selection, files);
      body.append(h("div.ex-m-scroll", { tabindex: 0, role: "region", "aria-label": "Eager's operations" },
        shownAs.element));
    } else {
      body.append(about());
    }
  }

  function about(): HTMLElement {
    const method = of;
    const made = !outcome(method);
    const code = (text: string) => h("pre.ex-m-said", text);
    const facts: [name: string, what: (Node | string)[]][] = [
      ["how it captures", [method.how]],
      ["not here", method.missing ? [method.missing] : []],
      ["it refused with", method.error ? [code(method.error)] : []],
      ["which means",
        method.meaning ? [method.meaning] : method.error ? ["The record has no more on this error."] : []],
      ["control flow", method.control ? [method.control] : []],
      ["dynamic shapes", method.sizes ? [method.sizes] : []],
      ["baked in", made ? [method.baked?.length ? `✗ ${method.baked.join(", ")}` : "none of the changes tried"] : []],
      ["recompiled", made && method.kept?.length ? [method.kept.join(", ")] : []],
      ["it warned", (method.said ?? []).map(code)],
      ["time", [times(method).join(", ")].filter(Boolean)],
      ["saved", method.saved ? [method.saved] : []],
      ["to load it", method.runs_without_python ? [method.runs_without_python] : []],
    ];
    const list =
      facts.filter(([, what]) => what.length > 0).flatMap(([name, what]) => [h("dt", name), h("dd", ...what)]);
    const cards = shared.data.inputs.flatMap(input => card(input));
    return h("div.ex-cards", { tabindex: 0, role: "region", "aria-label": `About ${method.name}` },
      h("dl.ex-facts.ex-m-facts", ...list), ...cards);
  }

  function card(input: TriedInputData): HTMLElement[] {
    const verdict = verdictOn(of, input);
    if (!verdict) return [];
    const error = verdict.error ? `largest difference ${verdict.error.toPrecision(3)}` : "";
    const facts = [["the input", `${input.change}: ${input.arguments}`], ["eager gives", input.expected ?? ""],
      ["this", phrase([verdict.detail, error], "; ")]] as const;
    const rows = facts.filter(([, what]) => what).flatMap(([name, what]) => [h("dt", name), h("dd", what)]);
    return [h(
      "section",
      { class: `ex-card ex-m-card-${verdict.answer.replace(" ", "-")}`, "data-input": input.name, tabindex: -1 },
      h("h3", `${verdictText(verdict)}: ${input.name}`), h("dl.ex-facts", ...rows),
    )];
  }

  return { element, open, exports, dispose };
}

export type MethodColumn = ReturnType<typeof MethodColumn>;
