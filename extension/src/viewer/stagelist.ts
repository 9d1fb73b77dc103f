// The column at the left: the compiles of the record as a tree, and the stages of the chosen one as a list.

import { aria, button, fill, h, named, on, taken } from "./dom";
import { key } from "./element";
import type { Activity } from "./follow";
import { count, phrase, seconds } from "./format";
import { sum } from "./gather";
import { nearest } from "./nearest";
import type { Context } from "./pane";
import type { CompileData, StageData } from "./record";
import { type Dispose, type Readable, Signal } from "./signal";
import { type Branch, changeOf, compileTree, fittingPane, halfName, OUTSIDE, ownSeconds, type Phase, phases } from "./stages";

/** Levels of the tree that are indented. */
const DEEPEST = 20;

export class StageList {
  readonly element: HTMLElement;
  readonly #tree = h("div.ex-tree", { role: "tree", "aria-label": "Compiles" });
  readonly list = h("div.ex-stages", { role: "listbox", "aria-label": "Stages", tabindex: 0 });
  readonly #heading = h("div.ex-stages-head");
  readonly #disposers: Dispose[] = [];
  readonly #name: string;
  readonly #unchanged: Signal<boolean>;
  readonly #context: Context;
  readonly #activity: Readable<Activity | null>;

  constructor(context: Context, name: string, unchanged: Signal<boolean>, activity: Readable<Activity | null>) {
    this.#context = context;
    this.#activity = activity;
    this.#name = name;
    this.#unchanged = unchanged;
    this.element = h("nav.ex-nav", { "aria-label": "Compiles and stages" }, this.#tree, this.#heading, this.list);
    const render = () => this.#render();
    this.#disposers.push(context.model.record.watch(render), context.compile.watch(render), unchanged.watch(render), activity.watch(render));
    this.#disposers.push(context.stage.watch(() => this.#mark()));
    on(this.list, "keydown", event => this.#key(event));
    on(this.#tree, "keydown", event => this.#treeKey(event));
  }

  focus(): void {
    this.list.focus();
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
  }

  get #compile(): CompileData | undefined {
    return this.#context.looked.value;
  }

  /** The stages in the order of the list: without those that changed nothing, unless they are asked for or selected. */
  get #walked(): readonly StageData[] {
    return (this.#compile ? phases(this.#compile) : []).flatMap(phase => this.#kept(phase));
  }

  #kept({ stages }: Phase): readonly StageData[] {
    return stages.filter(each => this.#unchanged.value || !each.same_as || each.id === this.#context.stage.value);
  }

  #render(): void {
    const compiles = this.#context.model.record.value.compiles;
    const focused = this.#tree.contains(document.activeElement);
    this.#tree.hidden = compiles.length < 2;
    fill(this.#tree, ...compileTree(compiles).flatMap(branch => this.#branch(branch, 1)));
    if (focused) this.#tree.querySelector<HTMLElement>("[tabindex='0']")?.focus();
    const compile = this.#compile;
    const stages = compile?.stages ?? [];
    const same = stages.filter(each => each.same_as).length;
    const shown = this.#unchanged.value;
    const toggle = button("ex-link", `${shown ? "Hide" : "Show"} ${count(same, "pass", "passes")} without effect`, () => (this.#unchanged.value = !shown), {
      "aria-pressed": String(shown),
    });
    fill(this.#heading, h("span", `Compilation · ${seconds(sum(stages.filter(each => each.depth === 0), each => each.seconds))}`), ...(same > 0 ? [toggle] : []));
    const own = ownSeconds(stages);
    const total = Math.max(sum([...own.values()], each => each), 1e-9);
    fill(this.list, ...(compile ? phases(compile) : []).flatMap(phase => this.#phase(compile as CompileData, phase, total, sum(phase.stages, each => own.get(each)!))));
    const running = this.#activity.value;
    if (running?.stage && running.compile === this.#context.compile.value) {
      this.list.append(h("div.ex-stage.ex-running", { role: "option", "aria-disabled": "true", "aria-selected": "false" },
        h("span.ex-stage-name", `${running.stage} …`), h("span.ex-stage-time", "running")));
    } else if (stages.length === 0) {
      this.list.append(h("div.ex-hint", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No stage has ended yet."));
    }
    this.#mark();
  }

  /** A phase as one row, with its stages below it where one of them is selected. */
  #phase(compile: CompileData, phase: Phase, total: number, took: number): HTMLElement[] {
    const { name, made, stages } = phase;
    const open = stages.some(each => each.id === this.#context.stage.value);
    const [first] = [...stages.filter(each => each.error), ...this.#kept(phase), ...stages];
    const failed = stages.some(each => each.error);
    const row = h(
      "div", {
        role: "option", "aria-selected": "false", class: `ex-stage ex-phase${failed ? " ex-failed" : ""}`, title: stages.map(each => each.name).join(", "),
        style: `--ex-part: ${((100 * took) / total).toFixed(1)}%`, onclick: () => first && this.#select(first, true),
      },
      h("span.ex-stage-name", name, " ", h("span.ex-stage-note", failed ? "✗ failed" : made)), h("span.ex-stage-time", seconds(took)),
    );
    return [row, ...(open ? this.#kept(phase).map(stage => this.#option(compile, stage, total)) : [])];
  }

  #option(compile: CompileData, stage: StageData, total: number): HTMLElement {
    const half = halfName(compile, stage.half ?? "");
    const change = changeOf(compile, stage);
    const notes = [half];
    if (stage.error) notes.push("✗ failed");
    else if (stage.same_as) notes.push("= unchanged");
    else if (change) notes.push(`+${change.added} −${change.removed}${change.altered ? ` ~${change.altered}` : ""}`);
    const spoken = change && !stage.same_as ? `${change.added} nodes added, ${change.removed} removed, ${change.altered} altered` : "";
    const style = `--ex-part: ${((100 * stage.seconds) / total).toFixed(1)}%; padding-left: ${1.25 + stage.depth * 0.75}rem`;
    return h(
      "div", {
        role: "option", class: `ex-stage${stage.error ? " ex-failed" : ""}${stage.same_as ? " ex-same" : ""}`, style,
        id: this.#optionId(stage), "data-stage": stage.id, title: phrase([stage.name, stage.error || spoken], ": "),
        onclick: () => this.#select(stage, true),
      },
      h("span.ex-stage-name", stage.name),
      h("span.ex-stage-note", phrase(notes, " ")),
      h("span.ex-stage-time", seconds(stage.seconds)),
    );
  }

  #optionId(stage: StageData): string {
    return `${this.#name}-stage-${stage.id}`;
  }

  #mark(): void {
    const chosen = this.#context.stage.value;
    if (this.#compile?.stages?.some(each => each.id === chosen) && !named(this.list, "data-stage", chosen)) {
      this.#render();
      return;
    }
    for (const option of this.list.querySelectorAll<HTMLElement>("[role=option]")) {
      const selected = option.dataset.stage === chosen;
      aria(option, "selected", selected);
      if (selected) {
        aria(this.list, "activedescendant", option.id);
        nearest(this.list, option);
      }
    }
  }

  #select(stage: StageData, open: boolean): void {
    this.#context.stage.value = stage.id;
    if (open) this.#context.show(fittingPane(stage), null);
  }

  #key(event: KeyboardEvent): void {
    const stages = this.#walked;
    const at = stages.findIndex(each => each.id === this.#context.stage.value);
    const to = {
      ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: stages.length - 1, Enter: at,
    }[event.key];
    if (to === undefined) return;
    taken(event);
    const stage = stages[Math.max(0, Math.min(to, stages.length - 1))];
    if (stage) this.#select(stage, true);
    this.list.focus();
  }

  #branch(branch: Branch, level: number): HTMLElement[] {
    const { compile, relation, breaks } = branch;
    const chosen = compile.id === this.#context.compile.value;
    const item = (text: string, extra: string, run: () => void, selected: boolean, style: string) =>
      h("div", {
        role: "treeitem", class: `ex-branch ${style}`, "aria-level": level, "aria-selected": String(selected), tabindex: selected ? 0 : -1,
        "aria-expanded": branch.children.length > 0 && style === "" ? "true" : undefined,
        style: `padding-left: ${Math.min(level, DEEPEST) * 0.75 - 0.25}rem`, title: phrase([text, extra], ": "), onclick: run,
      }, h("span", text), h("span.ex-stage-note", extra));
    const open = () => (this.#context.compile.value = compile.id);
    const breakItems = breaks.map(title =>
      item(`⤶ break: ${title}`, "", () => {
        const from = this.#context.model.record.value.compiles.find(each =>
          (each.breaks ?? []).some(one => (one.continuation ?? "").split(", ").includes(compile.title)));
        const found = from?.breaks?.find(one => (one.continuation ?? "").split(", ").includes(compile.title));
        if (from && found) this.#context.show("breaks", key(from.id, found.instruction));
      }, false, "ex-break"));
    const served = this.#context.model.record.value.history?.find(row => row.made?.includes(compile.id));
    const recompiled = relation === "recompile" ? `↻ ${served?.changes?.[0]?.said ?? "a guard failed"}` : "";
    const state = compile.raises ? "✗ raises" : compile.error && !compile.fallback ? "✗ failed" : compile.fallback ? "runs eagerly" : recompiled;
    return [
      ...breakItems,
      item(compile.title === OUTSIDE ? OUTSIDE : `${compile.id} ${compile.called || compile.title}${compile.engine === "stock" ? " (stock)" : ""}`, state, open, chosen, ""),
      ...branch.children.flatMap(child => this.#branch(child, level + 1)),
    ];
  }

  #treeKey(event: KeyboardEvent): void {
    const items = [...this.#tree.querySelectorAll<HTMLElement>("[role=treeitem]")];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) items[Math.max(0, Math.min(to, items.length - 1))]?.focus();
    else if (event.key === "Enter" || event.key === " ") items[at]?.click();
    else return;
    taken(event);
  }
}
