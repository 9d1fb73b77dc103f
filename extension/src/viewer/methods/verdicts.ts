// Result of each method on each input: in words, and as the table that leads to everything else.

import { DataTable, type TableColumn, figure } from "../datatable";
import { button } from "../dom";
import { count, phrase, seconds } from "../format";
import type { Selection } from "../selection";
import type { MethodData, MethodsData, TriedInputData, VerdictData } from "./data";

type Answer = VerdictData["answer"];

const SIGNS: { readonly [answer in Answer]: string } = { right: "✓", wrong: "✗", refused: "–", "not run": "·" };
const ORDER: readonly Answer[] = ["wrong", "refused", "not run", "right"];

export const LEGEND =
  "✓ same result as eager; ✗ a different result without an error; – an error. “recompiled”: it noticed that its "
    + "program does not fit the input, and compiled again.";

export function verdictText({ answer, recompiled }: VerdictData): string {
  return `${SIGNS[answer]} ${answer}${recompiled ? ", recompiled" : ""}`;
}

/** What became of a method that gave no program; "" where it gave one. */
export function outcome({ missing, error }: MethodData): string {
  if (missing) return missing;
  return error ? `${SIGNS.refused} refused: ${error.split("\n")[0]}` : "";
}

export function verdictOn(method: MethodData, input: TriedInputData): VerdictData | undefined {
  return method.verdicts?.find(each => each.input === input.name);
}

/** "2 wrong, 3 right · baked in: values · 8.26 us a call · captured in 20.7 ms" */
export function summary(method: MethodData): string {
  const verdicts = method.verdicts ?? [];
  const [became] = outcome(method).split(":");
  const baked = method.baked?.length ? `baked in: ${method.baked.join(", ")}` : "";
  const counts = ORDER.map(answer => [verdicts.filter(each => each.answer === answer).length, answer] as const)
    .filter(([found]) => found > 0);
  return phrase([became, counts.map(([found, answer]) => `${found} ${answer}`).join(", "), baked, ...times(method)],
    " · ");
}

export function times({ seconds: call, spread, capture_seconds: capture }: MethodData): string[] {
  const found = [];
  if (call != null)
    found.push(`${seconds(call)}${spread == null ? "" : ` (interquartile range ${seconds(spread)})`} a call`);
  if (capture != null) found.push(`captured in ${seconds(capture)}`);
  return found;
}

/** The one that captures nothing: what it ran is known operation by operation. */
export const EAGER = "eager";

/** The methods to begin with: the first that is wrong or refuses somewhere, and the last that is right everywhere. */
export function firstShown({ methods }: MethodsData): string[] {
  const made = methods.filter(each => each.views?.length && each.name !== EAGER);
  const fails = (each: MethodData) => each.verdicts?.some(one => one.answer !== "right") ?? false;
  const telling = made.find(each => each.verdicts?.some(one => one.answer === "wrong")) ?? made.find(fails) ?? made[0]
    ?? methods[0];
  const right = made.filter(each => each !== telling && !fails(each)).pop() ?? made.find(each => each !== telling);
  return [telling, right].flatMap(each => (each ? [each.name] : []));
}

export interface Choices {
  readonly shown: () => readonly string[];
  /** Puts a method beside the others, or takes it away. */
  toggle(method: MethodData): void;
  /** Shows what came of one input. */
  open(method: MethodData, input: TriedInputData): void;
}

export function verdictTable(data: MethodsData, selection: Selection, choices: Choices): DataTable<MethodData> {
  const columns: TableColumn<MethodData>[] = [
    {
      name: "method", text: each => each.name, order: each => data.methods.indexOf(each),
      cell: each => button("ex-facet", each.name, () => choices.toggle(each), { title: each.how,
        "aria-pressed": String(choices.shown().includes(each.name)) }),
    },
    ...data.inputs.map((input, n): TableColumn<MethodData> => ({
      name: input.name, title: `${input.change}: ${input.arguments}`,
      text: each => cellText(each, input, n),
      cell: each => cell(each, input, n, choices),
      order: each => ORDER.indexOf(verdictOn(each, input)?.answer ?? "refused"),
    })),
    figure("time per call", each => each.seconds, seconds),
    figure("capture time", each => each.capture_seconds, seconds),
  ];
  return DataTable(`Result of each method on ${count(data.inputs.length, "input")}, compared with eager`, columns,
    selection, { look: each => (outcome(each) ? "ex-m-none" : "") });
}

/** A method without a program says so once, under the first input. */
function cellText(method: MethodData, input: TriedInputData, n: number): string {
  const verdict = verdictOn(method, input);
  return verdict ? verdictText(verdict) : n === 0 ? outcome(method) : "";
}

function cell(method: MethodData, input: TriedInputData, n: number, choices: Choices): Node | string {
  const text = cellText(method, input, n);
  const verdict = verdictOn(method, input);
  if (!text || (verdict && !verdict.detail)) return text;
  return button(`ex-reason ex-m-${(verdict?.answer ?? "refused").replace(" ", "-")}`, text,
    () => choices.open(method, input), { title: verdict?.detail ?? method.error });
}
