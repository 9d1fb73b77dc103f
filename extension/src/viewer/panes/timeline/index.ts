// Where compile time went: every compile of the record and its stages, over time.

import { across, block, drawing, fitted, legendEntry, linear, mark, Patterns, type Pattern } from "../../chart";
import { DataTable, figure } from "../../datatable";
import { button, h, on, svg, taken } from "../../dom";
import { count, percent, seconds } from "../../format";
import { made } from "../../saving";
import type { Context, Export, Pane } from "../../pane";
import { Picture, type Presentation } from "../../picture";
import { RovingTabindex } from "../../linked";
import { ends, Signal, watchAny } from "../../signal";
import { compilingBefore, tableOf, timelineOf, type PipelinePart, type SpanRow, type Span, type Timeline } from
  "./spans";
import { most } from "../../collections";

const ROW = 24;
const BAR = 21;
const MOST_DRAWN = 1500;
const LOOKS: { readonly [part in PipelinePart]: { readonly look: string; readonly pattern: Pattern;
readonly says: string } } = {
  capture: { look: "ex-tone-0", pattern: "plain", says: "bytecode" },
  graph: { look: "ex-tone-4", pattern: "hatched", says: "graph" },
  loops: { look: "ex-tone-2", pattern: "dotted", says: "loops and schedule" },
  code: { look: "ex-tone-1", pattern: "barred", says: "code and build" },
  link: { look: "ex-tone-8", pattern: "crossed", says: "linking" },
  other: { look: "ex-tone-7", pattern: "plain", says: "other" },
};

export function timeline(into: HTMLElement, context: Context): Pane {
  const zoom = new Signal<readonly [number, number] | null>(null);
  const roving = RovingTabindex();
  const headline = h("p.ex-say");
  const whole = button("ex-action", "Zoom out", () => (zoom.value = null));
  const empty = h("div.ex-empty", h("p", "Nothing has been compiled yet."));
  let marks = new Map<SVGElement, Span>();
  const waits = context.setting<boolean>("waits", false);
  const table = DataTable<SpanRow>("Compile time by stage", [
    { name: "Compile", text: row => row.compile.id, order: row => row.compile.id },
    {
      name: "Stage",
      text: row => (row.stage ? "  ".repeat(1 + row.stage.depth) : row.build ? "    " : row.from === null ? "  " : "")
        + row.name,
      cell: row => (row.stage
        ? button("ex-reason", row.name, () => look(row)) : row.from !== null ? h("strong", row.name) : row.name),
    },
    figure("Began", row => row.from, seconds),
    figure("Took", row => row.seconds, seconds),
    figure("Share", row => row.seconds / Math.max(row.compile.seconds, 1e-12), percent),
    { name: "Note", text: row => row.note },
  ], context.selection);
  const waiting =
    h("input", { type: "checkbox", checked: waits.value, onchange: () => (waits.value = waiting.checked) });
  const picture = Picture(
    "Compile time", table, context.selection, context.setting<Presentation>("shown", "drawing"), undefined,
    whole, h("label.ex-check", waiting, "show the time between compiles"),
  );
  picture.element.insertBefore(headline, picture.element.children[1] ?? null);
  picture.element.append(legend());
  const body = h("div.ex-pad", picture.element);
  into.append(empty, body);
  const { element } = picture;
  on(element, "click", event => {
    const span = spanOf(event.target);
    if (span) look(span);
  });
  on(element, "dblclick", event => zoomTo(spanOf(event.target)));
  on(element, "focusin", event => {
    const focused = markOf(event.target);
    if (focused) roving.focused(focused);
  });
  on(element, "keydown", key);
  const dispose = ends(
    watchAny(render, context.model.record, zoom, waits),
    context.stage.watch(showCurrent),
    picture,
  );

  function exports(): readonly Export[] {
    if (body.hidden) return [];
    const name = `${context.model.record.value.title.replace(/\W+/g, "_")}-timeline`;
    return [...picture.exports(name),
      { kind: "json", name, make: () => made(context.host, 'trace("FILE.json")', "trace") }];
  }

  function render(): void {
    const record = context.model.record.value;
    const found = timelineOf(record);
    empty.hidden = found.spans.length > 0;
    body.hidden = found.spans.length === 0;
    if (found.spans.length === 0) return;
    whole.hidden = zoom.value === null;
    picture.table.show(tableOf(record));
    picture.show(width => draw(found, width));
    showCurrent();
  }

  function draw(found: Timeline, width: number): SVGSVGElement {
    roving.clear();
    marks = new Map();
    const at = (moment: number) => (waits.value ? moment : compilingBefore(found.busy, moment));
    const all = most(found.spans.map(each => at(each.from + each.seconds)), 1e-9);
    const [from, to] = zoom.value ?? [0, all];
    const x = linear(from, to, 8, width - 34, Math.floor(width / 120));
    const bottom = found.rows * ROW + 4;
    const patterns = Patterns();
    const inside = found.spans.filter(each => at(each.from + each.seconds) >= from && at(each.from) <= to);
    const longest = new Set(inside.length > MOST_DRAWN
      ? [...inside].sort((a, b) => b.seconds - a.seconds).slice(0, MOST_DRAWN) : inside);
    headline.textContent = summary(found) + (longest.size < inside.length
      ? ` The longest ${longest.size} of ${inside.length} bars are drawn; zoom in for others.` : "");
    const bars = inside.filter(each => longest.has(each)).map(span => {
      const [start, end] = [at(span.from), at(span.from + span.seconds)];
      const left = Math.max(x(start), 0);
      const wide = Math.max(Math.min(x(end), width) - left, 1.5);
      const { look, pattern } = LOOKS[span.part];
      const y = span.row * ROW;
      const failed = span.stage?.error || (!span.stage && span.compile.error);
      const name = `${span.name}: ${seconds(span.seconds)}${failed ? ", failed" : ""}`;
      const builds = buildsOf(span);
      const label = fitted(`${failed ? "✗ " : ""}${span.name} ${seconds(span.seconds)}${builds}`, wide - 8)
        || fitted(span.name, wide - 6);
      const bar = mark(
        name + builds, `ex-span${span.stage ? "" : " ex-whole"}${failed ? " ex-failed" : ""}`,
        block(patterns, span.stage ? pattern : "plain", left, y, wide, BAR, span.stage ? look : "ex-tone-none"),
        svg("text.ex-span-name", { x: left + 4, y: y + 14.5 }, label),
      );
      marks.set(bar, span);
      roving.add(bar);
      return bar;
    });
    const axis = across(x, bottom, bottom, seconds);
    return drawing(width, bottom + 20, `Compile time of ${count(found.busy.length, "compile")}`, patterns.definitions,
      axis, ...bars);
  }

  /** What a build stage ran: the tools, and whether their work was found in the cache. */
  function buildsOf(span: Span): string {
    const half =
      span.stage?.name === "build" ? span.compile.halves?.find(each => each.name === span.stage?.half) : undefined;
    const builds = half?.builds ?? [];
    if (builds.length === 0) return "";
    const cached = builds.filter(each => each.cached).length;
    const tools = [...new Set(builds.map(each => each.tool))].join(", ");
    const share = cached === builds.length ? "" : `${cached} of ${builds.length} `;
    return ` (${tools}${cached > 0 ? `, ${share}from the cache` : ""})`;
  }

  function showCurrent(): void {
    for (const [mark, span] of marks) {
      mark.classList.toggle("ex-current",
        span.stage !== undefined && span.stage.id === context.stage.value && span.compile.id === context.compile.value);
    }
  }

  function markOf(target: EventTarget | null): SVGElement | null {
    const mark = target instanceof Element ? target.closest<SVGElement>(".ex-span") : null;
    return mark && marks.has(mark) ? mark : null;
  }

  function spanOf(target: EventTarget | null): Span | undefined {
    const mark = markOf(target);
    return mark ? marks.get(mark) : undefined;
  }

  function look({ compile, stage }: Pick<Span, "compile" | "stage">): void {
    context.compile.value = compile.id;
    if (stage) context.stage.value = stage.id;
  }

  function zoomTo(span: Span | undefined): void {
    if (!span) return;
    const { busy } = timelineOf(context.model.record.value);
    const at = (moment: number) => (waits.value ? moment : compilingBefore(busy, moment));
    const [from, to] = [at(span.from), at(span.from + span.seconds)];
    if (to > from) zoomAndFocus(span, [from, to]);
  }

  /** What was focused is focused again in the drawing that is made anew. */
  function zoomAndFocus(span: Span, to: readonly [number, number] | null): void {
    zoom.value = to;
    const same = (each: Span) => each.compile === span.compile && each.stage === span.stage;
    [...marks].find(([, each]) => same(each))?.[0].focus();
  }

  function key(event: KeyboardEvent): void {
    const mark = markOf(event.target);
    const span = spanOf(event.target);
    if (!mark || !span || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") look(span);
    else if (event.key === "z") zoomTo(span);
    else if (event.key === "Escape" && zoom.value) zoomAndFocus(span, null);
    else if (!roving.key(event, mark)) return;
    taken(event);
  }

  return { reveal: () => false, exports, dispose };
}

function summary({ spans, busy }: Timeline): string {
  const total = compilingBefore(busy, Infinity);
  const byName = new Map<string, number>();
  for (const { stage } of spans) if (stage?.depth === 0)
    byName.set(stage.name, (byName.get(stage.name) ?? 0) + stage.seconds);
  const longest = [...byName].sort((a, b) => b[1] - a[1]).slice(0, 3);
  const compiles = spans.filter(each => !each.stage).length;
  const most = longest.map(([name, spent]) => `${name} (${percent(spent / total)})`).join(", ");
  return `${count(compiles, "compile")} took ${seconds(total)}; most of it went to ${most}. `
    + "Double-click (or press z on) a bar to zoom in.";
}

function legend(): HTMLElement {
  return h("div.ex-legend",
    ...Object.entries(LOOKS).flatMap(([part, look]) => (part === "other" ? [] : [legendEntry(look)])));
}
