// Where compile time went: every compile of the record and its stages, over time.

import { across, block, drawing, fitted, legendEntry, linear, mark, Patterns, type Pattern } from "../../chart";
import { DataTable, figure } from "../../datatable";
import { button, h, on, svg, taken } from "../../dom";
import { count, percent, seconds } from "../../format";
import { made } from "../../saving";
import type { Context, Export, Pane, PaneKind } from "../../pane";
import { Picture, type Shown } from "../../picture";
import { Roving } from "../../roving";
import { type Dispose, Signal } from "../../signal";
import { compilingBefore, tableOf, timelineOf, type Part, type Row, type Span, type Timeline } from "./spans";
import { TITLES } from "../titles";
import { most } from "../../gather";

export const timeline: PaneKind = {
  id: "timeline",
  title: TITLES.timeline,
  open: (into, context) => new TimelinePane(into, context),
};

const ROW = 24;
const BAR = 21;
const LOOKS: { readonly [part in Part]: { readonly look: string; readonly pattern: Pattern; readonly says: string } } = {
  capture: { look: "ex-tone-0", pattern: "plain", says: "bytecode" },
  graph: { look: "ex-tone-4", pattern: "hatched", says: "graph" },
  loops: { look: "ex-tone-2", pattern: "dotted", says: "loops and schedule" },
  code: { look: "ex-tone-1", pattern: "barred", says: "code and build" },
  link: { look: "ex-tone-8", pattern: "crossed", says: "linking" },
  other: { look: "ex-tone-7", pattern: "plain", says: "other" },
};

class TimelinePane implements Pane {
  readonly #picture: Picture<Row>;
  readonly #zoom = new Signal<readonly [number, number] | null>(null);
  readonly #waits: Signal<boolean>;
  readonly #roving = new Roving();
  readonly #said = h("p.ex-say");
  readonly #whole = button("ex-action", "Whole", () => (this.#zoom.value = null));
  readonly #empty = h("div.ex-empty", h("p", "Nothing was compiled yet."));
  readonly #body: HTMLElement;
  #marks = new Map<SVGElement, Span>();
  readonly #disposers: Dispose[] = [];
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    this.#waits = context.setting<boolean>("waits", false);
    const table = new DataTable<Row>("Compile time by stage", [
      { name: "Compile", text: row => row.compile.id, order: row => row.compile.id },
      {
        name: "Stage", text: row => (row.stage ? "  ".repeat(1 + row.stage.depth) : row.build ? "    " : row.from === null ? "  " : "") + row.name,
        cell: row => (row.stage ? button("ex-reason", row.name, () => this.#look(row)) : row.from !== null ? h("strong", row.name) : row.name),
      },
      figure("Began", row => row.from, seconds),
      figure("Took", row => row.seconds, seconds),
      figure("Share", row => row.seconds / Math.max(row.compile.seconds, 1e-12), percent),
      { name: "Note", text: row => row.note },
    ], context.selection);
    const waiting = h("input", { type: "checkbox", checked: this.#waits.value, onchange: () => (this.#waits.value = waiting.checked) });
    this.#picture = new Picture(
      "Compile time", table, context.selection, context.setting<Shown>("shown", "drawing"), undefined,
      this.#whole, h("label.ex-check", waiting, "with the time between compiles"),
    );
    this.#picture.element.insertBefore(this.#said, this.#picture.element.children[1] ?? null);
    this.#picture.element.append(legend());
    this.#body = h("div.ex-pad", this.#picture.element);
    into.append(this.#empty, this.#body);
    const { element } = this.#picture;
    on(element, "click", event => this.#clicked(event));
    on(element, "dblclick", event => this.#zoomTo(this.#spanOf(event.target)));
    on(element, "focusin", event => {
      const focused = this.#markOf(event.target);
      if (focused) this.#roving.focused(focused);
    });
    on(element, "keydown", event => this.#key(event));
    this.#disposers.push(
      context.model.record.watch(() => this.#render()),
      this.#zoom.watch(() => this.#render()),
      this.#waits.watch(() => this.#render()),
      context.stage.watch(() => this.#showCurrent()),
    );
  }

  reveal(): boolean {
    return false;
  }

  exports(): readonly Export[] {
    if (this.#body.hidden) return [];
    const name = `${this.#context.model.record.value.title.replace(/\W+/g, "_")}-timeline`;
    return [...this.#picture.exports(name), { kind: "json", name, make: () => made(this.#context.host, 'trace("FILE.json")', "trace") }];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#picture.dispose();
  }

  #render(): void {
    const record = this.#context.model.record.value;
    const found = timelineOf(record);
    this.#empty.hidden = found.spans.length > 0;
    this.#body.hidden = found.spans.length === 0;
    if (found.spans.length === 0) return;
    this.#whole.hidden = this.#zoom.value === null;
    this.#said.textContent = summary(found);
    this.#picture.table.show(tableOf(record));
    this.#picture.show(width => this.#draw(found, width));
    this.#showCurrent();
  }

  #draw(found: Timeline, width: number): SVGSVGElement {
    this.#roving.clear();
    this.#marks = new Map();
    const at = (moment: number) => (this.#waits.value ? moment : compilingBefore(found.busy, moment));
    const all = most(found.spans.map(each => at(each.from + each.seconds)), 1e-9);
    const [from, to] = this.#zoom.value ?? [0, all];
    const x = linear(from, to, 8, width - 34, Math.floor(width / 120));
    const bottom = found.rows * ROW + 4;
    const patterns = new Patterns();
    const bars = found.spans.flatMap(span => {
      const [start, end] = [at(span.from), at(span.from + span.seconds)];
      if (end < from || start > to) return [];
      const left = Math.max(x(start), 0);
      const wide = Math.max(Math.min(x(end), width) - left, 1.5);
      const { look, pattern } = LOOKS[span.part];
      const y = span.row * ROW;
      const failed = span.stage?.error || (!span.stage && span.compile.error);
      const name = `${span.name}: ${seconds(span.seconds)}${failed ? ", failed" : ""}`;
      const builds = this.#builds(span);
      const label = fitted(`${failed ? "✗ " : ""}${span.name} ${seconds(span.seconds)}${builds}`, wide - 8) || fitted(span.name, wide - 6);
      const bar = mark(
        name + builds, `ex-span${span.stage ? "" : " ex-whole"}${failed ? " ex-failed" : ""}`,
        block(patterns, span.stage ? pattern : "plain", left, y, wide, BAR, span.stage ? look : "ex-tone-none"),
        svg("text.ex-span-name", { x: left + 4, y: y + 14.5 }, label),
      );
      this.#marks.set(bar, span);
      this.#roving.add(bar);
      return [bar];
    });
    const axis = across(x, bottom, bottom, seconds);
    return drawing(width, bottom + 20, `Compile time of ${count(found.busy.length, "compile")}`, patterns.definitions, axis, ...bars);
  }

  /** What a build stage ran: the tools, and whether their work was found in the cache. */
  #builds(span: Span): string {
    const half = span.stage?.name === "build" ? span.compile.halves?.find(each => each.name === span.stage?.half) : undefined;
    const builds = half?.builds ?? [];
    if (builds.length === 0) return "";
    const cached = builds.filter(each => each.cached).length;
    const tools = [...new Set(builds.map(each => each.tool))].join(", ");
    return ` (${tools}${cached === builds.length ? ", from the cache" : cached > 0 ? `, ${cached} of ${builds.length} from the cache` : ""})`;
  }

  #showCurrent(): void {
    for (const [mark, span] of this.#marks) {
      mark.classList.toggle("ex-current", span.stage !== undefined && span.stage.id === this.#context.stage.value && span.compile.id === this.#context.compile.value);
    }
  }

  #markOf(target: EventTarget | null): SVGElement | null {
    const mark = target instanceof Element ? target.closest<SVGElement>(".ex-span") : null;
    return mark && this.#marks.has(mark) ? mark : null;
  }

  #spanOf(target: EventTarget | null): Span | undefined {
    const mark = this.#markOf(target);
    return mark ? this.#marks.get(mark) : undefined;
  }

  #clicked(event: Event): void {
    const span = this.#spanOf(event.target);
    if (span) this.#look(span);
  }

  #look({ compile, stage }: Pick<Span, "compile" | "stage">): void {
    this.#context.compile.value = compile.id;
    if (stage) this.#context.stage.value = stage.id;
  }

  #zoomTo(span: Span | undefined): void {
    if (!span) return;
    const { busy } = timelineOf(this.#context.model.record.value);
    const at = (moment: number) => (this.#waits.value ? moment : compilingBefore(busy, moment));
    const [from, to] = [at(span.from), at(span.from + span.seconds)];
    if (to > from) this.#zoomBeside(span, [from, to]);
  }

  /** What was focused is focused again in the drawing that is made anew. */
  #zoomBeside(span: Span, to: readonly [number, number] | null): void {
    this.#zoom.value = to;
    const same = (each: Span) => each.compile === span.compile && each.stage === span.stage;
    [...this.#marks].find(([, each]) => same(each))?.[0].focus();
  }

  #key(event: KeyboardEvent): void {
    const mark = this.#markOf(event.target);
    const span = this.#spanOf(event.target);
    if (!mark || !span || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") this.#look(span);
    else if (event.key === "z") this.#zoomTo(span);
    else if (event.key === "Escape" && this.#zoom.value) this.#zoomBeside(span, null);
    else if (!this.#roving.key(event, mark)) return;
    taken(event);
  }
}

function summary({ spans, busy }: Timeline): string {
  const total = compilingBefore(busy, Infinity);
  const byName = new Map<string, number>();
  for (const { stage } of spans) if (stage?.depth === 0) byName.set(stage.name, (byName.get(stage.name) ?? 0) + stage.seconds);
  const longest = [...byName].sort((a, b) => b[1] - a[1]).slice(0, 3);
  const compiles = spans.filter(each => !each.stage).length;
  return `${count(compiles, "compile")} took ${seconds(total)}; most of it went to ${longest.map(([name, spent]) => `${name} (${percent(spent / total)})`).join(", ")}. `
    + "Double-click (or press z on) a bar to zoom in.";
}

function legend(): HTMLElement {
  return h("div.ex-legend", ...Object.entries(LOOKS).flatMap(([part, look]) => (part === "other" ? [] : [legendEntry(look)])));
}
