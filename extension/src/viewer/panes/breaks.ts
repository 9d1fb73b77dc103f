// Where the graph was split, why, and what Python did in between; what failed, and what was compiled again.

import { copy } from "../overlays";
import { button, fill, h, on } from "../dom";
import { key } from "../element";
import { count, fileName, seconds } from "../format";
import { entry } from "../collections";
import type { Context, Pane } from "../pane";
import type { BreakData, CompileData, EagerData, ErrorData, RecordData, SpanData } from "../record";
import { ends, watchAny } from "../signal";
import { spanned } from "./bytecode/listing";
import { shortTarget } from "./graphs/operations";
import { callsIn, compileCalled, compileName } from "../stages";

export function breaks(into: HTMLElement, context: Context): Pane {
  const body = h("div.ex-cards", { tabindex: 0, role: "region", "aria-label": "Graph breaks" });
  into.append(body);
  const cards: Cards = new Map();
  const render = () => {
    cards.clear();
    fill(body, ...content(context, cards));
  };
  const light = () => {
    for (const [what, card] of cards) card.classList.toggle("ex-hot", context.selection.chain.value.has(what));
  };
  const dispose = ends(watchAny(render, context.model.record, context.compile),
    watchAny(light, context.selection.chain, context.model.record));
  return {
    reveal: what => {
      const chain = context.model.links.value.chain(what);
      const card = cards.get(what) ?? [...cards].find(([each]) => chain.has(each))?.[1];
      card?.scrollIntoView({ block: "nearest" });
      card?.focus();
      return card !== undefined;
    },
    exports: () =>
      [{ kind: "txt", name: fileName(`${context.model.record.value.title} breaks`), make: async () => body.innerText }],
    dispose,
  };
}

type Cards = Map<string, HTMLElement>;

function content(context: Context, cards: Cards): HTMLElement[] {
  const record = context.model.record.value;
  const chosen = context.compile.value;
  const found = places(record.compiles);
  const listed = listedOf(found, chosen);
  const captured = record.compiles.filter(each => each.stages?.some(stage => stage.name === "capture" && !stage.error));
  const heading = found.length > 0
    ? count(places(record.compiles.map(each => ({ ...each, engine: "" }))).length, "graph break")
    : captured.length > 0 ? "No graph break: every captured function is one graph."
      : "No capture has ended, so nothing is known of graph breaks.";
  const files = context.model.files.value;
  const python = record.eager?.length
    ? record.eager.filter(each => each.reached !== false)
      .map(each => h("li", h("code", each.what), ...at(context, each.span), `: ${each.why}${took(each)}`))
    : (record.coverage.python ?? []).map(each => h("li", h("code", files.inText(each))));
  return [
    ...diagnosis(context),
    h("h2", heading),
    ...(listed.length < found.length ? [h("p", `Listed are the first ${LISTED}, and those of ${chosen}.`)] : []),
    ...listed.map(ends => {
      const shown = card(context, ends, isOf(ends, chosen), cards);
      for (const [compile, each] of ends) cards.set(key(compile.id, each.instruction), shown);
      return shown;
    }),
    ...record.compiles.filter(each => each.fallback).map(compile => fallbackCard(context, compile)),
    ...(record.attempts?.length
      ? [h("h2", "Fixes that were tried"), ...record.attempts.map(each => tried(context, each, cards))] : []),
    h("h2", python.length ? "Ran in Python, outside all graphs" : "Nothing ran in Python outside the graphs"),
    h("ul.ex-list", ...python),
  ];
}

type FrameBreak = readonly [compile: CompileData, broke: BreakData];

/** Breaks by their place in the program: a frame ends its graph too where a function that it calls breaks. */
export function places(compiles: readonly CompileData[]): FrameBreak[][] {
  const found = new Map<string, FrameBreak[]>();
  for (const compile of compiles) {
    for (const broke of compile.breaks ?? []) {
      const { span } = broke;
      const place =
        span ? JSON.stringify([compile.engine, span.file, span.line, span.column]) : key(compile.id, broke.instruction);
      entry(found, place, () => []).push([compile, broke]);
    }
  }
  return [...found.values()];
}

const isOf = (ends: readonly FrameBreak[], id: string) => ends.some(([compile]) => compile.id === id);

/** The first places, and all of the compile with this id. */
export function listedOf(found: readonly FrameBreak[][], id: string): FrameBreak[][] {
  return found.filter((ends, n) => n < LISTED || isOf(ends, id));
}

function card(context: Context, ends: readonly FrameBreak[], chosen: boolean, cards: Cards): HTMLElement {
  const [compile, broke] = ends[ends.length - 1] as FrameBreak;
  const { why, span, stack, hints, rewrite = [], cell = "", tried = "" } = broke;
  const record = context.model.record.value;
  const files = context.model.files.value;
  const link = (text: string, run: () => void) => button("ex-link", text, run);
  const row = (name: string, ...values: readonly (Node | string)[]) => [h("dt", name), h("dd", ...values)];
  const after =
    [...new Set(ends.flatMap(([, each]) => (each.continuation ?? "").split(", ").filter(Boolean)))].map(name =>
    [name, compileCalled(record.compiles, name, ...ends.map(([each]) => each.id))] as const);
  const next = after.map(([name, found]) => {
    return found ? h("div", link(`${found.id} ${found.called || name}`, () => (context.compile.value = found.id)),
      made(found)) : h("div", `a continuation of ${functionOf(name)}: not compiled, because no call reached it`);
  });
  const frames = stack.map(frame => {
    const at = /^(.*):(\d+) in /.exec(frame);
    const [, file, line] = at ?? [];
    const known = file !== undefined && record.sources.some(each => each.file === file);
    return h("li", known ? link(functionOf(files.inText(frame)), () => context.show("source", `|${file}:${line}`))
      : functionOf(files.inText(frame)));
  });
  const element = h(
    "section", { class: `ex-card${chosen ? " ex-chosen" : ""}`, tabindex: -1, "aria-label": `Break: ${why.title}` },
    h("h3", `⤶ ${why.title}${compile.engine === "stock" && record.engine !== "stock" ? " (stock)" : ""}`,
      ...(span ? [" at ",
        link(files.place(span.file, span.line), () => context.show("source", `|${span.file}:${span.line}`))] : [])),
    marked(record, span),
    ...(rewrite.length ? [
      h("p", "Write instead (computes both sides; ",
        ...(tried ? ["tried: ", ...hinted(tried, record.attempts ?? [], cards)] : ["not tried"]), "):"),
      h("pre",
        ...rewrite.map(
          line => h("div", { class: line.startsWith("+") ? "ex-row ex-row-added" : "ex-row ex-row-removed" }, line))),
      button("ex-action", "Copy",
        () => void copy(element, "Write instead",
          rewrite.filter(line => line.startsWith("+")).map(line => line.slice(1)).join("\n"))),
      ...(cell && context.host.insert
        ? [" ", button("ex-action", "Put it into a new cell", () => context.host.insert?.(cell))] : []),
      ...(tried ? [h("details", h("summary", "Show both captures"), h("div.ex-beside",
        captures("As it is", [...ends.map(([each]) => each), ...after.flatMap(([, each]) => each ?? [])]),
        captures("With the rewrite",
          (record.attempts ?? []).filter(each => tried.split(/[\s,()]+/).includes(each.id)))))] : []),
    ] : []),
    h("dl.ex-facts",
      ...(why.detail ? row("What happened", h("code", why.detail)) : []),
      ...(hints.length
        ? row("What you can do", ...hints.map(each => h("p", ...hinted(each, record.attempts ?? [], cards)))) : []),
      ...row("Before it", ...ends.map(([each, { instruction }]) =>
        h("div", link(compileName(each), () => context.show("bytecode", key(each.id, instruction))), made(each)))),
      ...row("After it", ...(next.length ? next : ["no continuation follows"])),
      ...(frames.length > 1 ? row("Call stack", h("ol.ex-list", ...frames)) : []),
      ...row("Reason", link(why.code, () => context.reason(why.code))),
    ),
  );
  const what = key(compile.id, broke.instruction);
  on(element, "mouseenter", () => (context.selection.hovered.value = what));
  on(element, "mouseleave", () => (context.selection.hovered.value = null));
  return element;
}

/** The graphs of these compiles as they were captured. */
function captures(title: string, compiles: readonly CompileData[]): HTMLElement {
  return h("div", h("h4", title), ...compiles.map(each => {
    const stage = each.stages?.find(one => one.name === "capture" && one.body);
    return h("div", compileName(each), h("pre", stage?.body?.lines.map(([text]) => text).join("\n") ?? "no graph"));
  }));
}

/** What a compile captured: " compiled 3 operations: tanh, sum, gt". */
function made({ stages = [] }: CompileData): string {
  const nodes = callsIn(stages.find(each => each.name === "capture")?.graph);
  const names = nodes.slice(0, NAMED).map(each => shortTarget(each.target)).join(", ");
  return ` compiled ${count(nodes.length, "operation")}${names && `: ${names}`}${nodes.length > NAMED ? ", …" : ""}`;
}

const NAMED = 6;

/** Breaks that are listed besides those of the chosen compile. */
const LISTED = 200;

/** The function that a continuation goes on with, in a text that names it. */
const functionOf = (text: string): string => text.replace(/resume_in_(\w+)_at_\d+/, "$1");

/** The source line with what breaks the graph marked. */
function marked(record: RecordData, span: SpanData | null): HTMLElement | null {
  const [before, inside, after] = span ? spanned(record, span) : ["", "", ""];
  return before || inside ? h("pre", before.trimStart(), inside && h("mark", inside), after) : null;
}

/** A hint, whose names of compiles with a fix lead to these. */
function hinted(hint: string, attempts: readonly CompileData[], cards: Cards): (HTMLElement | string)[] {
  const ids = new Set(attempts.map(each => each.id));
  return hint.split(/\b(fix\w+(?:\.\d+)?)\b/)
    .map(part => (ids.has(part) ? button("ex-link", part, () => cards.get(key(part, ""))?.focus()) : part));
}

/** A compile of the program with a fix: what is left of the breaks, and what was compiled. */
function tried(context: Context, compile: CompileData, cards: Cards): HTMLElement {
  const files = context.model.files.value;
  const left = (compile.breaks ?? [])
    .map(({ why, span }) => h("li", `${why.title}${span ? ` at ${files.place(span.file, span.line)}` : ""}`));
  const shown = (compile.stages ?? []).filter(each => each.body && ["rewritten source", "capture"].includes(each.name));
  const made = h(
    "section.ex-card", { tabindex: -1, "aria-label": `Fix: ${compile.title}` },
    h("h3", `${compile.id} ${compile.title}`),
    ...(compile.error
      ? [h("p.ex-fails", compile.error)]
      : left.length ? [h("p", "With this fix the graph breaks at"), h("ul.ex-list", ...left)]
        : [h("p", "With this fix the graph does not break.")]),
    ...shown.map(
      stage =>
        h("details", h("summary", stage.name === "capture" ? "the graph with the fix" : "the source change"), h("pre",
          (stage.body?.lines ?? []).map(([text]) => text).join("\n")))),
  );
  cards.set(key(compile.id, ""), made);
  return made;
}

function fallbackCard(context: Context, compile: CompileData): HTMLElement {
  const why = compile.fallback;
  return h(
    "section.ex-card", h("h3", `⚠ ${compileName(compile)} runs eagerly: ${why?.title ?? ""}`),
    h("p", why?.detail ?? ""), button("ex-link", why?.code ?? "", () => context.reason(why?.code ?? "")),
  );
}

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
