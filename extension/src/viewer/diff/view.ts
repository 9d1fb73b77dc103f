// Two compiles, stage by stage: the list of stages with what differs, and the texts beside each other; in a page of two
// records, the choice of the compiles.

import { aria, button, fill, h, markOption, on, taken, tool } from "../dom";
import { count, fileName, seconds, phrase } from "../format";
import { Links } from "../links";
import { Palette } from "../palette";
import type { Export } from "../pane";
import type { CompileData, RecordData } from "../record";
import { stepChanges } from "../panes/bytecode/steps";
import { rowsOf, type TextRow, TextView } from "../textview";
import { couple, Selection } from "../selection";
import { ends, onChange, Signal } from "../signal";
import type { FileNames } from "../sources";
import { comparable, type CompilePair, facts, linesOf, type StagePair, stagePairs, compilePairs } from "./compare";
import { aligned, unified } from "./lines";
import { type Host, remembered } from "../host";
import { menuButton } from "../overlays";
import { Saving } from "../saving";
import { notesOf } from "../status";
import { compileName } from "../stages";

export interface Version {
  readonly name: string;
  readonly record: RecordData;
}

interface Wishes {
  /** "split" or "unified". */
  readonly mode: Signal<string>;
  /** Whether runs of equal lines are hidden. */
  readonly folded: Signal<boolean>;
}

interface DiffSide extends Version {
  readonly model: { readonly links: Signal<Links>; readonly palette: Signal<Palette>;
  readonly files: Signal<FileNames> };
  readonly selection: Selection;
}

export function DiffView(name: string, before: Version, after: Version, pair: CompilePair, wishes: Wishes) {
  const list = h("div.ex-stages", { role: "listbox", tabindex: 0, "aria-label": "Stages compared" });
  const heading = h("span", { role: "status" });
  const texts = h("div.ex-diff-texts");
  const chosen = new Signal(-1);
  let views: TextView[] = [];
  let starts: readonly number[] = [];
  let at = -1;
  const split = (): boolean => wishes.mode.value !== "unified";
  const idsOf = name;
  const [old, fresh] = [new Links(before.record), new Links(after.record)];
  const lines = [...new Set([...old.programLines(), ...fresh.programLines()])];
  const sides: readonly [DiffSide, DiffSide] = [side(before, old, lines), side(after, fresh, lines)];
  const stages = stagePairs(pair, [sides[0].model.files.value, sides[1].model.files.value]);
  const mode = button("ex-button", "", () => (wishes.mode.value = split() ? "unified" : "split"));
  const fold = button("ex-button", "Only differences", () => (wishes.folded.value = !wishes.folded.value));
  const step = (by: number, glyph: string, label: string) =>
    tool(glyph, label, () => goBy(by));
  const element = h(
    "div.ex-diff",
    h("div.ex-diff-list", list),
    h("div.ex-pane",
      h("div.ex-bar", heading,
        h("div.ex-tools", step(-1, "↑", "Previous difference"), step(1, "↓", "Next difference"), mode, fold)),
      texts),
  );
  fill(list, option(-1, "Summary", "", "numbers"),
    ...stages.map((each, n) => option(n, each.name, each.half, each.state)));
  on(list, "keydown", key);
  const dispose = ends(
    clear, couple(sides[0].selection, pair.before?.id ?? "", sides[1].selection, pair.after?.id ?? ""),
    wishes.mode.watch(() => (mode.textContent = split() ? "One column" : "Two columns")),
    wishes.folded.watch(on => aria(fold, "pressed", on)),
    onChange(wishes.mode, render), onChange(wishes.folded, render), chosen.watch(render), () => element.remove(),
  );

  function exports(): readonly Export[] {
    const stage = stages[chosen.value];
    return stage ? [{ kind: "txt", name: fileName(`diff ${stage.id}`), make: async () => asText(stage) }] : [];
  }

  function clear(): void {
    views.forEach(view => view.dispose());
    views = [];
    starts = [];
    at = -1;
    fill(texts);
  }

  function option(n: number, name: string, half: string, state: string): HTMLElement {
    const pair = stages[n];
    const marks: { readonly [state: string]: string } =
      { alike: "= same operations", other: "", same: "= same", renamed: "= except names", idle: "= changes nothing",
        changed: "≠ differs", "only before": "− only before", "only after": "+ only after", numbers: "in numbers" };
    const times = pair?.before && pair.after ? `${seconds(pair.before.seconds)} → ${seconds(pair.after.seconds)}` : "";
    return h(
      "div", {
        role: "option", id: `${idsOf}-pair-${n}`, class: `ex-stage ex-diff-${state.replace(" ", "-")}`, "data-n": n,
        title: times || undefined,
        onclick: () => (chosen.value = n),
      },
      h("span.ex-stage-name", name), h("span.ex-stage-time", marks[state] ?? ""), h("span.ex-stage-note", half),
    );
  }

  function key(event: KeyboardEvent): void {
    const now = chosen.value;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: -1, End: stages.length - 1 }[event.key];
    if (to === undefined) return;
    taken(event);
    chosen.value = Math.max(-1, Math.min(to, stages.length - 1));
  }

  function goBy(by: number): void {
    if (starts.length === 0) return;
    at = Math.max(0, Math.min(at + by, starts.length - 1));
    views.forEach(view => view.scrollTo(Math.max(0, (starts[at] ?? 0) - 3)));
  }

  function rowsOn(which: 0 | 1, compile: CompileData | undefined, stage: StagePair): TextRow[] {
    const made = which === 0 ? stage.before : stage.after;
    if (!compile || !made) return [];
    if (made.error) return [{ text: `The stage failed: ${made.error}` }];
    return rowsOf({ lines: linesOf(compile, made) }, compile, sides[which].model);
  }

  function language(stage: StagePair): string {
    const shown = stage.after?.body ?? stage.before?.body;
    return shown?.language ?? "text";
  }

  function render(): void {
    markOption(list, option => Number(option.dataset.n) === chosen.value);
    clear();
    const stage = stages[chosen.value];
    if (!stage) return summary();
    const { before, after } = pair;
    const [old, fresh] = [rowsOn(0, before, stage), rowsOn(1, after, stage)];
    const columns = aligned(old, fresh, wishes.folded.value);
    const lines = `${count(columns.removed, "line")} removed, ${columns.added} added`;
    const stateTexts: { readonly [state: string]: string } =
      { same: "the same on both sides", renamed: "the same except for names and line numbers",
        idle: `changes nothing on either side; before it, ${lines}` };
    heading.textContent = `${stage.id}: ${stateTexts[stage.state] ?? lines}`;
    if (split()) {
      starts = columns.starts;
      const made =
        ([[0, columns.before], [1, columns.after]] as const).map(([which, rows]) => column(sides[which], rows, stage));
      fill(texts, ...made.map(([box]) => box));
      views = made.map(([, view]) => view);
      scrollTogether();
      return;
    }
    const one = unified(old, fresh, wishes.folded.value);
    starts = one.starts;
    const [box, view] = column(sides[1], one.rows, stage, `${sides[0].name} → ${sides[1].name}`);
    fill(texts, box);
    views = [view];
  }

  function column(side: DiffSide, rows: readonly TextRow[], stage: StagePair,
      name = side.name): [HTMLElement, TextView] {
    const body = h("div.ex-body-text");
    const box = h("section.ex-diff-column", { "aria-label": name }, h("h2", name), body);
    const view = TextView(body, side);
    view.show({ rows, language: language(stage), label: `${stage.id} of ${name}` });
    return [box, view];
  }

  function scrollTogether(): void {
    const [one, other] = views.map(view => view.view.scrollDOM);
    if (!one || !other) return;
    const follow = (from: HTMLElement, to: HTMLElement) => on(from, "scroll", () => {
      if (to.scrollTop !== from.scrollTop) to.scrollTop = from.scrollTop;
      if (to.scrollLeft !== from.scrollLeft) to.scrollLeft = from.scrollLeft;
    }, { passive: true });
    follow(one, other);
    follow(other, one);
  }

  function summary(): void {
    const [before, after] = sides;
    const differing = stages.filter(each => differs(each)).length;
    const { before: old, after: fresh } = pair;
    const engines = old && fresh && old.engine !== fresh.engine ? [old.engine, fresh.engine] : undefined;
    const graphs = stages.filter(each => ["alike", "changed"].includes(each.state));
    heading.textContent = engines
      ? `Two compilers: ${graphs.filter(differs).length} of ${count(graphs.length, "graph")} that both have differ in `
        + `operations`
      : `${differing} of ${count(stages.length, "stage")} differ`;
    const rows = facts(before.record, after.record, engines, pair).filter(([, old, fresh]) => old || fresh)
      .map(([name, old, fresh]) =>
      h("tr", { class: old === fresh ? "" : "ex-differs" }, h("th", { scope: "row" }, name), h("td", old), h("td",
        fresh), h("td", old === fresh ? "" : "≠")));
    const head = h("tr", h("th", ""), h("th", before.name), h("th", after.name), h("th", ""));
    const steps = old?.trace && fresh?.trace ? stepChanges(old, fresh) : [];
    fill(texts, h("div.ex-cards", { tabindex: 0, role: "region", "aria-label": "Summary" },
      h("table.ex-table", h("thead", head), h("tbody", ...rows)),
      ...(steps.length ? [h("h2", `Differences in the capture: ${count(steps.length, "difference")}`),
        h("pre", steps.join("\n"))] : [])));
  }

  function asText(stage: StagePair): string {
    const { before, after } = pair;
    const { rows } = unified(rowsOn(0, before, stage), rowsOn(1, after, stage), false);
    const sign = (row: TextRow) => (row.style === "removed" ? "-" : row.style === "added" ? "+" : " ");
    return [`--- ${sides[0].name}`, `+++ ${sides[1].name}`, ...rows.map(row => sign(row) + row.text)].join("\n");
  }

  return { element, exports, dispose };
}

export type DiffView = ReturnType<typeof DiffView>;

const differs = ({ state }: StagePair): boolean => !["same", "renamed", "idle", "alike", "other"].includes(state);

function side(version: Version, links: Links, lines: readonly string[]): DiffSide {
  const linking = new Signal(links);
  return { ...version, model: { links: linking, palette: new Signal(Palette(links, lines)),
    files: new Signal(comparable(version.record)) }, selection: Selection(linking) };
}

const NARROW = 720;
let mounted = 0;

/** `first` says which compiles to begin with; the first ones where it is absent, or says so of none. */
export function DiffShell(
  root: HTMLElement, before: RecordData, after: RecordData, host: Host, first?: (pair: CompilePair) => boolean,
) {
  let view: DiffView | null = null;
  const name = `ex-diff-page${++mounted}`;
  const pairs = compilePairs(before, after);
  const [mode, endMode] = remembered<string>(host, "diff.mode", root.clientWidth < NARROW ? "unified" : "split");
  const [folded, endFolded] = remembered<boolean>(host, "diff.folded", false);
  const saving = Saving(root, host);
  const chooser = h("select.ex-select", { "aria-label": "Compiles compared" }, ...pairs.map((pair, n) =>
    h("option", { value: n },
      `${pair.before ? compileName(pair.before) : "nothing"} → ${pair.after ? compileName(pair.after) : "nothing"}`)));
  const [old, fresh] =
    before.title === after.title ? [`${before.title} (before)`, `${after.title} (after)`] : [before.title, after.title];
  const badge = (record: RecordData) => h("span.ex-badge",
    { title: "The compiler, and what it generated code for" }, phrase([record.engine, record.target], " · "));
  const header = h(
    "header.ex-header",
    h("div.ex-title", h("h1", `${old} → ${fresh}`), badge(before),
      ...(before.engine === after.engine && before.target === after.target ? [] : [badge(after)])),
      pairs.length > 1 ? chooser : null,
    h("div.ex-tools", menuButton("Save as a file", "Save", () => saving.items(view?.exports() ?? []))),
  );
  const body = h("div.ex-body");
  fill(root, header, h("div.ex-status", ...notesOf(before, old), ...notesOf(after, fresh)), body);
  const show = () => {
    view?.dispose();
    const pair = pairs[Number(chooser.value || 0)] ?? {};
    view = DiffView(name, { name: old, record: before }, { name: fresh, record: after }, pair, { mode, folded });
    fill(body, view.element);
  };
  on(chooser, "change", show);
  if (first) chooser.value = String(Math.max(0, pairs.findIndex(first)));
  show();
  const dispose = ends(
    endMode, endFolded, host.dark.watch(dark => root.classList.toggle("ex-dark", dark)), () => view?.dispose(),
    () => fill(root),
  );

  return { dispose };
}

export type DiffShell = ReturnType<typeof DiffShell>;
