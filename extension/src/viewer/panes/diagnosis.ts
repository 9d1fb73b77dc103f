// What a program that ran shows: its calls and its errors.

import { button, h } from "../dom";
import { count, seconds } from "../format";
import type { Context } from "../pane";
import type { CallsData, EagerData, ErrorData, SpanData } from "../record";

export function diagnosis(context: Context): HTMLElement[] {
  const record = context.model.record.value;
  const { calls = [], errors = [] } = record;
  return [
    ...(errors.length ? [h("h2", count(errors.length, "error")), ...errors.map(each => failure(context, each))] : []),
    ...(calls.length ? [h("h2", "Calls of compiled functions"), h("ul.ex-list", ...calls.map(each => h("li", called(each))))] : []),
  ];
}

export function at(context: Context, span: SpanData | null | undefined): (HTMLElement | string)[] {
  if (!span) return [];
  const place = context.model.files.value.place(span.file, span.line);
  const known = context.model.record.value.sources.some(each => each.file === span.file);
  return [" at ", known ? button("ex-link", place, () => context.show("source", `|${span.file}:${span.line}`)) : place];
}

/** How long it ran outside graphs, and with how many ATen calls, where that was measured. */
export function took(each: EagerData): string {
  if (each.seconds === null || each.seconds === undefined || !each.measured) return "";
  const calls = each.calls === null || each.calls === undefined ? "" : ` and ${count(each.calls, "ATen call")}`;
  return `; ${seconds(each.seconds)}${calls} in ${each.measured}`;
}

function failure(context: Context, each: ErrorData): HTMLElement {
  const whose = [each.compile, each.title].filter(Boolean).join(" ");
  const what = each.raises ? "the program gets this error" : "the frame runs eagerly instead";
  return h(
    "section.ex-card", h("h3", `✗ ${whose ? `${whose}: ` : ""}${what}`),
    h("p", ...at(context, each.span)), h("pre", each.message ? `${each.kind}: ${each.message}` : each.kind),
  );
}

function called(each: CallsData): string {
  const whole = each.samples.map((_, index) => index + 1).filter(number => !each.compiled?.includes(number));
  const settled = whole.filter(number => number !== each.measured);
  const numbers = settled.length ? settled : whole;
  const sorted = (numbers.length ? numbers.map(number => each.samples[number - 1]!) : [...each.samples]).sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  const parts = each.compiling ? [`${seconds(each.compiling)} compiling`] : [];
  if (each.graphs === null || each.graphs === undefined) parts.push("compiled before watching began, so its graphs are not timed separately");
  else parts.push(each.graphs > 0 ? `${seconds(each.graphs)} in compiled graphs` : "no compiled graph ran", `${seconds(Math.max(each.seconds - each.compiling - each.graphs, 0))} outside (guards, Python, eager frames)`);
  return `${each.function}: ${count(each.count, "call")} (${each.engine}), ${middle === undefined || each.count === 1 ? "" : `${seconds(middle)} at the median, `}${seconds(each.seconds)} in all: ${parts.join(", ")}`;
}
