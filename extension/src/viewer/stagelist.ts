// The column at the left: the compiles of the record as a tree, and the stages of the chosen one as a list.

import { button, fill, h, markOption, named, on, taken } from "./dom";
import { key } from "./element";
import type { Activity } from "./kernelupdates";
import { count, grouped, phrase, seconds } from "./format";
import { sum } from "./collections";
import type { Context } from "./pane";
import type { BreakData, CompileData, StageData } from "./record";
import { ends, onChange, type Readable, Signal, watchAny } from "./signal";
import { type Branch, compileName, compileTree, countsPhrase, countsText, fittingPane, halfName, OUTSIDE, ownSeconds,
  passCounts, type Phase, phases, recompileCause } from "./stages";

/** Levels of the tree that are indented. */
const DEEPEST = 20;

/** Rows of the tree, and of a phase's stages, that are on the page: those around the chosen one. */
const LISTED = 300;
/** Stages that a phase's tooltip names. */
const NAMED = 30;

interface BranchRow {
  readonly text: string;
  readonly extra: string;
  readonly run: () => void;
  readonly selected: boolean;
  readonly style: string;
  readonly level: number;
  readonly opens: boolean;
}

export function StageList(
  context: Context, name: string, unchanged: Signal<boolean>, activity: Readable<Activity | null>,
) {
  const tree = h("div.ex-tree", { role: "tree", "aria-label": "Compiles" });
  const list = h("div.ex-stages", { role: "listbox", "aria-label": "Stages", tabindex: 0 });
  const heading = h("div.ex-stages-head");
  const focus = () => list.focus();
  const current = (): CompileData | undefined => context.looked.value;
  /** The stages in the order of the list: without those that changed nothing, unless they are asked for or selected. */
  const walked = (): readonly StageData[] => (current() ? phases(current()!) : []).flatMap(phase => kept(phase));
  const element = h("nav.ex-nav", { "aria-label": "Compiles and stages" }, tree, heading, list);
  const dispose = ends(
    watchAny(render, context.model.record, context.compile, unchanged, activity), onChange(context.stage, mark),
  );
  on(list, "keydown", listKey);
  on(tree, "keydown", treeKey);

  function kept({ stages }: Phase): readonly StageData[] {
    return stages.filter(each => unchanged.value || !each.same_as || each.id === context.stage.value);
  }

  function render(): void {
    const compiles = context.model.record.value.compiles;
    const focused = tree.contains(document.activeElement);
    tree.hidden = compiles.length < 2;
    const rows = compileTree(compiles).flatMap(branch => branchRows(branch, 1));
    fill(tree, ...listed(rows, rows.findIndex(each => each.selected), branchItem,
      (text, next) => branchItem({ ...next, text, extra: "", opens: false })));
    if (focused) tree.querySelector<HTMLElement>("[tabindex='0']")?.focus();
    const compile = current();
    const stages = compile?.stages ?? [];
    const same = stages.filter(each => each.same_as).length;
    const shown = unchanged.value;
    const toggle = button("ex-link", `${shown ? "Hide" : "Show"} ${count(same, "pass", "passes")} without effect`,
        () => (unchanged.value = !shown), {
      "aria-pressed": String(shown),
    });
    const staged = sum(stages.filter(each => !each.depth), each => each.seconds);
    fill(heading,
      h("span", `Compilation · ${seconds(Math.max(compile?.seconds ?? 0, staged))}`),
      ...(same > 0 ? [toggle] : []));
    const own = ownSeconds(stages);
    const total = Math.max(sum([...own.values()], each => each), 1e-9);
    fill(list, ...(compile ? phases(compile) : [])
      .flatMap(phase => phaseRows(compile as CompileData, phase, total, sum(phase.stages, each => own.get(each)!))));
    const running = activity.value;
    if (running?.stage && running.compile === context.compile.value) {
      list.append(h("div.ex-stage.ex-running", { role: "option", "aria-disabled": "true", "aria-selected": "false" },
        h("span.ex-stage-name", `${running.stage} …`), h("span.ex-stage-time", "running")));
    } else if (stages.length === 0) {
      list.append(h("div.ex-hint", { role: "option", "aria-disabled": "true", "aria-selected": "false" },
        "No stage has finished yet."));
    }
    mark();
  }

  /** A phase as one row, with its stages below it where one of them is selected. */
  function phaseRows(compile: CompileData, phase: Phase, total: number, took: number): HTMLElement[] {
    const { name, made, stages } = phase;
    const open = stages.some(each => each.id === context.stage.value);
    const [first] = [...stages.filter(each => each.error), ...kept(phase), ...stages];
    const failed = stages.some(each => each.error);
    const row = h(
      "div", {
        role: "option", "aria-selected": "false", class: `ex-stage ex-phase${failed ? " ex-failed" : ""}`,
        title: phrase([...stages.slice(0, NAMED).map(each => each.name), stages.length > NAMED && "…"], ", "),
        style: `--ex-part: ${((100 * took) / total).toFixed(1)}%`, onclick: () => first && select(first, true),
      },
      h("span.ex-stage-name", name, " ", h("span.ex-stage-note", failed ? "✗ failed" : made)),
      h("span.ex-stage-time", seconds(took)),
    );
    const shown = open ? kept(phase) : [];
    return [row, ...listed(shown, shown.findIndex(each => each.id === context.stage.value),
      stage => option(compile, stage, total), (text, next) => h("div.ex-stage",
      { role: "option", "aria-selected": "false", onclick: () => select(next, true) }, h("span.ex-stage-note", text)))];
  }

  function option(compile: CompileData, stage: StageData, total: number): HTMLElement {
    const half = halfName(compile, stage.half ?? "");
    const counts = passCounts(compile, stage);
    const notes = [half];
    if (stage.error) notes.push("✗ failed");
    else if (stage.same_as) notes.push("= unchanged");
    else if (counts) notes.push(countsText(counts));
    const changeText = counts && !stage.same_as ? `nodes: ${countsPhrase(counts)}` : "";
    const style =
      `--ex-part: ${((100 * stage.seconds) / total).toFixed(1)}%; padding-left: ${1.25 + stage.depth * 0.75}rem`;
    return h(
      "div", {
        role: "option", class: `ex-stage${stage.error ? " ex-failed" : ""}${stage.same_as ? " ex-same" : ""}`, style,
        id: `${name}-stage-${stage.id}`, "data-stage": stage.id, onclick: () => select(stage, true),
        title: phrase([stage.name, stage.error || changeText], ": "),
      },
      h("span.ex-stage-name", stage.name),
      h("span.ex-stage-note", phrase(notes, " ")),
      h("span.ex-stage-time", seconds(stage.seconds)),
    );
  }

  function mark(): void {
    const chosen = context.stage.value;
    if (current()?.stages?.some(each => each.id === chosen) && !named(list, "data-stage", chosen)) {
      render();
      return;
    }
    markOption(list, option => option.dataset.stage === chosen);
  }

  function select(stage: StageData, open: boolean): void {
    context.stage.value = stage.id;
    if (open) context.show(fittingPane(stage), null);
  }

  function listKey(event: KeyboardEvent): void {
    const stages = walked();
    const at = stages.findIndex(each => each.id === context.stage.value);
    const to = {
      ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: stages.length - 1,
      Enter: at,
    }[event.key];
    if (to === undefined) return;
    taken(event);
    const stage = stages[Math.max(0, Math.min(to, stages.length - 1))];
    if (stage) select(stage, true);
    list.focus();
  }

  function branchRows({ compile, relation, breaks, children }: Branch, level: number): BranchRow[] {
    const { compiles, engine } = context.model.record.value;
    const goesOn = (one: BreakData) => (one.continuation ?? "").split(", ").includes(compile.title);
    const breakRows = breaks.map((title): BranchRow => ({
      text: `⤶ break: ${title}`, extra: "", selected: false, style: "ex-break", level, opens: false, run: () => {
        const { continues = "" } = compile;
        const from = compiles.find(each => (!continues || each.id === continues) && each.breaks?.some(goesOn));
        const found = from?.breaks?.find(goesOn);
        if (from && found) context.show("breaks", key(from.id, found.instruction));
      },
    }));
    const recompiled = relation === "recompile"
      ? `↻ ${recompileCause(context.model.record.value, compile) || "a guard failed"}` : "";
    const extra = compile.raises
      ? "✗ raises" : compile.error && !compile.fallback ? "✗ failed" : compile.fallback ? "runs eagerly" : recompiled;
    const text = compile.title === OUTSIDE
      ? OUTSIDE : `${compileName(compile)}${compile.engine === "stock" && engine !== "stock" ? " (stock)" : ""}`;
    return [
      ...breakRows,
      { text, extra, run: () => (context.compile.value = compile.id), selected: compile.id === context.compile.value,
        style: "", level, opens: children.length > 0 },
      ...children.flatMap(child => branchRows(child, level + 1)),
    ];
  }

  function branchItem({ text, extra, run, selected, style, level, opens }: BranchRow): HTMLElement {
    return h("div", {
      role: "treeitem", class: `ex-branch ${style}`, "aria-level": level, "aria-selected": String(selected),
      tabindex: selected ? 0 : -1, "aria-expanded": opens ? "true" : undefined,
      style: `padding-left: ${Math.min(level, DEEPEST) * 0.75 - 0.25}rem`, title: phrase([text, extra], ": "),
      onclick: run,
    }, h("span", text), h("span.ex-stage-note", extra));
  }

  function treeKey(event: KeyboardEvent): void {
    const items = [...tree.querySelectorAll<HTMLElement>("[role=treeitem]")];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) items[Math.max(0, Math.min(to, items.length - 1))]?.focus();
    else if (event.key === "Enter" || event.key === " ") items[at]?.click();
    else return;
    taken(event);
  }

  return { element, list, focus, dispose };
}

/** Those around the one at `at`; `more` makes a row for those before and after, which leads to the nearest of them. */
function listed<T>(all: readonly T[], at: number, row: (each: T) => HTMLElement,
    more: (text: string, next: T) => HTMLElement): HTMLElement[] {
  const from = Math.max(0, Math.min(at - LISTED / 2, all.length - LISTED));
  const to = Math.min(from + LISTED, all.length);
  return [
    ...(from > 0 ? [more(`▴ ${grouped(from)} before these`, all[from - 1]!)] : []),
    ...all.slice(from, to).map(row),
    ...(to < all.length ? [more(`▾ ${grouped(all.length - to)} after these`, all[to]!)] : []),
  ];
}
