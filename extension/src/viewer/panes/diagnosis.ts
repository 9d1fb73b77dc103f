// What a program that ran shows: its errors.

import { button, h } from "../dom";
import { count, seconds } from "../format";
import type { Context } from "../pane";
import type { EagerData, ErrorData, SpanData } from "../record";

export function diagnosis(context: Context): HTMLElement[] {
  const record = context.model.record.value;
  const { errors = [] } = record;
  return errors.length ? [h("h2", count(errors.length, "error")), ...errors.map(each => failure(context, each))] : [];
}

export function at(context: Context, span: SpanData | null | undefined): (HTMLElement | string)[] {
  if (!span) return [];
  const place = context.model.files.value.place(span.file, span.line);
  const known = context.model.record.value.sources.some(each => each.file === span.file);
  return [" at ", known ? button("ex-link", place, () => context.show("source", `|${span.file}:${span.line}`)) : place];
}

/** How long it ran outside graphs, and with how many ATen calls, or why nobody knows. */
export function took(each: EagerData): string {
  if (!each.measured) return "";
  if (each.seconds === null || each.seconds === undefined) return `; not timed: ${each.measured}`;
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
