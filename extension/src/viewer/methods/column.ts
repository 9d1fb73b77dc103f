// One method beside others: what is known of it, the texts of what it captured as rows that the program's lines link,
// and of eager each operation's way through the dispatcher.

import { choices } from "../choices";
import { DataTable, figure } from "../datatable";
import { button, fill, h, named } from "../dom";
import { fileName, phrase, percent, seconds } from "../format";
import type { Links } from "../links";
import type { Palette } from "../palette";
import type { Export } from "../pane";
import type { Selection } from "../selection";
import { ends, Signal } from "../signal";
import { type FileNames, stretchesOf } from "../sources";
import { TextView, type TextRow } from "../textview";
import type { MethodData, MethodsData, OperationCallData, TriedInputData } from "./data";
import { EAGER, outcome, summary, times, verdictText, verdictOn } from "./verdicts";
import { key } from "../element";
import type { TextData } from "../record";

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
  let shownAs: TextView | DataTable<OperationCallData> | null = null;
  const views = (method.views ?? []).map(each => each.title);
  const operations = method.name === EAGER && shared.data.operations?.length ? [OPERATIONS] : [];
  const names = [...operations, ...views, ABOUT];
  const chosen = new Signal(names[0]!);
  const tabs = choices(`${method.name}: shown`, names.map(name => [name, name] as const), chosen);
  const element = h(
    "section.ex-column", { "aria-label": method.name },
    h("div.ex-bar",
      h("h2", method.name), tabs.element,
      h("div.ex-tools", button("ex-button", "×", close, { "aria-label": `Close ${method.name}`, title: "Close" }))),
    h("div.ex-facts-line", summary(method)),
    body,
  );
  const dispose = ends(chosen.watch(render), tabs.end, () => shownAs?.dispose());

  /** What came of an input. */
  function open(input: TriedInputData): void {
    chosen.value = ABOUT;
    const card = named(body, "data-input", input.name) ?? body.querySelector<HTMLElement>(".ex-cards");
    card?.scrollIntoView({ block: "nearest" });
    card?.focus({ preventScroll: true });
  }

  function exports(): readonly Export[] {
    const make = async () => {
      const text = shownAs?.text ?? body.innerText;
      return typeof text === "string" ? text : text();
    };
    return [{ kind: "txt", name: fileName(`${method.name} ${chosen.value}`), make }];
  }

  function render(): void {
    shownAs?.dispose();
    shownAs = null;
    const view = method.views?.find(each => each.title === chosen.value);
    const { data, selection, files, model } = shared;
    fill(body);
    if (view) {
      shownAs = TextView(body, shared);
      shownAs.show({ rows: textRows(view.text, model.palette.value), language: view.text.language ?? "text",
        label: `${view.title} of ${method.name}` });
    } else if (chosen.value === OPERATIONS) {
      shownAs = operationTable(data, selection, files);
      body.append(h("div.ex-m-scroll", { tabindex: 0, role: "region", "aria-label": "Eager's operations" },
        shownAs.element));
    } else {
      body.append(about());
    }
  }

  function about(): HTMLElement {
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
    const verdict = verdictOn(method, input);
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

/** Every line of the program that something was made for, as keys. */
export function programLines({ methods, operations }: MethodsData): string[] {
  const texts = methods.flatMap(
    method => (method.views ?? []).flatMap(view => view.text.lines.flatMap(([, , origins]) => origins ?? [])));
  const places = [...texts, ...(operations ?? []).flatMap(each => (each.where ? [each.where] : []))];
  return [...new Set(places)].map(place => key("", place));
}

export function sourceRows(data: MethodsData, palette: Palette): TextRow[] {
  return stretchesOf(data).flatMap(({ file, name, first, lines }): TextRow[] => [
    { text: `${name}, from line ${first}`, style: "heading" },
    ...lines.map((text, n): TextRow => {
      const line = key("", `${file}:${first + n}`);
      return { text, stands: [line], color: palette.of(line), number: String(first + n) };
    }),
  ]);
}

export function textRows(text: TextData, palette: Palette): TextRow[] {
  return text.lines.map(([line, , origins], n) => {
    const stands = (origins ?? []).map(place => key("", place));
    return { text: line, stands, color: palette.ofAll(stands), number: String(n + 1) };
  });
}

function operationTable({ operations = [] }: MethodsData, selection: Selection,
    files: FileNames): DataTable<OperationCallData> {
  const total = operations.reduce((sum, each) => sum + each.seconds, 0);
  const table = DataTable<OperationCallData>("Eager's operations in the order in which they ran", [
    figure("#", each => operations.indexOf(each) + 1),
    { name: "operation", text: each => each.name, cell: each => h("code", each.name), order: each => each.name },
    figure("time", each => each.seconds, seconds),
    figure("share", each => (total ? each.seconds / total : null), percent),
    { name: "dispatch keys in order", text: wayText, cell: way },
    { name: "inside the kernel", text: inside },
    { name: "result", text: each => each.result, cell: each => h("code", each.result) },
    { name: "line", text: each => files.inText(each.where) },
  ], selection, { keys: each => (each.where ? [key("", each.where)] : []) });
  table.show(operations);
  return table;
}

const inside = ({ dtype, layout, device }: OperationCallData): string => phrase([dtype, layout, device], ", ");

function wayText({ steps }: OperationCallData): string {
  return steps.map(step => (step.does === "kernel" ? step.key : `(${step.key})`)).join(" → ");
}

function way({ steps }: OperationCallData): HTMLElement {
  const parts = steps.flatMap((step, n) => {
    const passes = step.does !== "kernel";
    const shown = h("span", { class: passes ? "ex-detail" : "ex-m-key", title: `${step.does}: ${step.place}` },
      passes ? `(${step.key})` : step.key);
    return n > 0 ? [" → ", shown] : [shown];
  });
  return h("span", ...parts);
}
