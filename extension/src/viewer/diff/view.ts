// Two compiles, stage by stage: the list of stages with what differs, and the texts beside each other.

import { aria, button, fill, h, on, taken, tool } from "../dom";
import { fileName } from "../filename";
import { count, seconds } from "../format";
import { Links } from "../links";
import { nearest } from "../nearest";
import { Palette } from "../palette";
import type { Export } from "../pane";
import type { CompileData, RecordData } from "../record";
import { stepChanges } from "../panes/bytecode/steps";
import { rowsOf } from "../rows";
import { Selection } from "../selection";
import { type Dispose, onChange, Signal } from "../signal";
import type { FileNames } from "../sources";
import { type Row, TextView } from "../textview";
import { comparable, type CompilePair, facts, linesOf, type StagePair, stagePairs } from "./compare";
import { couple } from "./couple";
import { aligned, unified } from "./rows";

export interface Version {
  readonly name: string;
  readonly record: RecordData;
}

export interface Wishes {
  /** "split" or "unified". */
  readonly mode: Signal<string>;
  /** Whether runs of equal lines are hidden. */
  readonly folded: Signal<boolean>;
}

interface Side extends Version {
  readonly model: { readonly links: Signal<Links>; readonly palette: Signal<Palette>; readonly files: Signal<FileNames> };
  readonly selection: Selection;
}

export class DiffView {
  readonly element: HTMLElement;
  readonly #list = h("div.ex-stages", { role: "listbox", tabindex: 0, "aria-label": "Stages compared" });
  readonly #heading = h("span", { role: "status" });
  readonly #texts = h("div.ex-diff-texts");
  readonly #sides: readonly [Side, Side];
  readonly #stages: readonly StagePair[];
  readonly #chosen = new Signal(-1);
  readonly #disposers: Dispose[] = [];
  #views: TextView[] = [];
  #starts: readonly number[] = [];
  #at = -1;
  readonly #name: string;
  readonly #pair: CompilePair;
  readonly #wishes: Wishes;

  constructor(name: string, before: Version, after: Version, pair: CompilePair, wishes: Wishes) {
    this.#name = name;
    this.#pair = pair;
    this.#wishes = wishes;
    const [old, fresh] = [new Links(before.record), new Links(after.record)];
    const lines = [...new Set([...old.programLines(), ...fresh.programLines()])];
    this.#sides = [side(before, old, lines), side(after, fresh, lines)];
    this.#stages = stagePairs(pair, [this.#sides[0].model.files.value, this.#sides[1].model.files.value]);
    const mode = button("ex-button", "", () => (wishes.mode.value = this.#split ? "unified" : "split"));
    const fold = button("ex-button", "Only differences", () => (wishes.folded.value = !wishes.folded.value));
    const step = (by: number, glyph: string, label: string) =>
      tool(glyph, label, () => this.#step(by));
    this.element = h(
      "div.ex-diff",
      h("div.ex-diff-list", this.#list),
      h("div.ex-pane",
        h("div.ex-bar", this.#heading, h("div.ex-tools", step(-1, "↑", "Previous difference"), step(1, "↓", "Next difference"), mode, fold)),
        this.#texts),
    );
    this.#disposers.push(
      couple(this.#sides[0].selection, pair.before?.id ?? "", this.#sides[1].selection, pair.after?.id ?? ""),
      wishes.mode.watch(() => (mode.textContent = this.#split ? "One column" : "Two columns")),
      wishes.folded.watch(on => aria(fold, "pressed", on)),
      onChange(wishes.mode, () => this.#render()), onChange(wishes.folded, () => this.#render()),
    );
    fill(this.#list, this.#option(-1, "Summary", "", "numbers"), ...this.#stages.map((each, n) => this.#option(n, each.name, each.half, each.state)));
    on(this.#list, "keydown", event => this.#key(event));
    this.#disposers.push(this.#chosen.watch(() => this.#render()));
  }

  exports(): readonly Export[] {
    const stage = this.#stages[this.#chosen.value];
    return stage ? [{ kind: "txt", name: fileName(`diff ${stage.id}`), make: async () => this.#asText(stage) }] : [];
  }

  dispose(): void {
    this.#clear();
    this.#disposers.forEach(dispose => dispose());
    this.element.remove();
  }

  get #split(): boolean {
    return this.#wishes.mode.value !== "unified";
  }

  #clear(): void {
    this.#views.forEach(view => view.dispose());
    this.#views = [];
    this.#starts = [];
    this.#at = -1;
    fill(this.#texts);
  }

  #option(n: number, name: string, half: string, state: string): HTMLElement {
    const pair = this.#stages[n];
    const marks: { readonly [state: string]: string } = { same: "= same", renamed: "= but for names", idle: "= changes nothing", changed: "≠ differs", "only before": "− only before", "only after": "+ only after", numbers: "in numbers" };
    const times = pair?.before && pair.after ? `${seconds(pair.before.seconds)} → ${seconds(pair.after.seconds)}` : "";
    return h(
      "div", {
        role: "option", id: `${this.#name}-pair-${n}`, class: `ex-stage ex-diff-${state.replace(" ", "-")}`, "data-n": n, title: times || undefined,
        onclick: () => (this.#chosen.value = n),
      },
      h("span.ex-stage-name", name), h("span.ex-stage-time", marks[state] ?? ""), h("span.ex-stage-note", half),
    );
  }

  #key(event: KeyboardEvent): void {
    const now = this.#chosen.value;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: -1, End: this.#stages.length - 1 }[event.key];
    if (to === undefined) return;
    taken(event);
    this.#chosen.value = Math.max(-1, Math.min(to, this.#stages.length - 1));
  }

  #step(by: number): void {
    if (this.#starts.length === 0) return;
    this.#at = Math.max(0, Math.min(this.#at + by, this.#starts.length - 1));
    this.#views.forEach(view => view.scrollTo(Math.max(0, (this.#starts[this.#at] ?? 0) - 3)));
  }

  #rows(which: 0 | 1, compile: CompileData | undefined, stage: StagePair): Row[] {
    const made = which === 0 ? stage.before : stage.after;
    if (!compile || !made) return [];
    if (made.error) return [{ text: `The stage failed: ${made.error}` }];
    return rowsOf({ lines: linesOf(compile, made) }, compile, this.#sides[which].model);
  }

  #language(stage: StagePair): string {
    const shown = stage.after?.body ?? stage.before?.body;
    return shown?.language ?? "text";
  }

  #render(): void {
    for (const option of this.#list.querySelectorAll<HTMLElement>("[role=option]")) {
      const selected = Number(option.dataset.n) === this.#chosen.value;
      aria(option, "selected", selected);
      if (selected) {
        aria(this.#list, "activedescendant", option.id);
        nearest(this.#list, option);
      }
    }
    this.#clear();
    const stage = this.#stages[this.#chosen.value];
    if (!stage) return this.#summary();
    const { before, after } = this.#pair;
    const [old, fresh] = [this.#rows(0, before, stage), this.#rows(1, after, stage)];
    const columns = aligned(old, fresh, this.#wishes.folded.value);
    const lines = `${count(columns.removed, "line")} went, ${count(columns.added, "line")} came`;
    const said: { readonly [state: string]: string } = { same: "the same on both sides", renamed: "the same but for names and lines of the program", idle: `changes nothing on either side; before it, ${lines}` };
    this.#heading.textContent = `${stage.id}: ${said[stage.state] ?? lines}`;
    if (this.#split) {
      this.#starts = columns.starts;
      const made = ([[0, columns.before], [1, columns.after]] as const).map(([which, rows]) => this.#column(this.#sides[which], rows, stage));
      fill(this.#texts, ...made.map(([box]) => box));
      this.#views = made.map(([, view]) => view);
      this.#scrollTogether();
      return;
    }
    const one = unified(old, fresh, this.#wishes.folded.value);
    this.#starts = one.starts;
    const [box, view] = this.#column(this.#sides[1], one.rows, stage, `${this.#sides[0].name} → ${this.#sides[1].name}`);
    fill(this.#texts, box);
    this.#views = [view];
  }

  #column(side: Side, rows: readonly Row[], stage: StagePair, name = side.name): [HTMLElement, TextView] {
    const body = h("div.ex-body-text");
    const box = h("section.ex-diff-column", { "aria-label": name }, h("h2", name), body);
    const view = TextView(body, side);
    view.show({ rows, language: this.#language(stage), label: `${stage.id} of ${name}` });
    return [box, view];
  }

  #scrollTogether(): void {
    const [one, other] = this.#views.map(view => view.view.scrollDOM);
    if (!one || !other) return;
    const follow = (from: HTMLElement, to: HTMLElement) => on(from, "scroll", () => {
      if (to.scrollTop !== from.scrollTop) to.scrollTop = from.scrollTop;
      if (to.scrollLeft !== from.scrollLeft) to.scrollLeft = from.scrollLeft;
    }, { passive: true });
    follow(one, other);
    follow(other, one);
  }

  #summary(): void {
    const [before, after] = this.#sides;
    const differing = this.#stages.filter(each => differs(each)).length;
    this.#heading.textContent = `${differing} of ${count(this.#stages.length, "stage")} differ`;
    const { before: old, after: fresh } = this.#pair;
    const engines = old && fresh && old.engine !== fresh.engine ? [old.engine, fresh.engine] : undefined;
    const rows = facts(before.record, after.record, engines).map(([name, old, fresh]) =>
      h("tr", { class: old === fresh ? "" : "ex-differs" }, h("th", { scope: "row" }, name), h("td", old), h("td", fresh), h("td", old === fresh ? "" : "≠")));
    const head = h("tr", h("th", ""), h("th", before.name), h("th", after.name), h("th", ""));
    const steps = old?.trace && fresh?.trace ? stepChanges(old, fresh) : [];
    fill(this.#texts, h("div.ex-cards", { tabindex: 0, role: "region", "aria-label": "Summary" }, h("table.ex-table", h("thead", head), h("tbody", ...rows)),
      ...(steps.length ? [h("h2", `What the capture adds: ${count(steps.length, "difference")}`), h("pre", steps.join("\n"))] : [])));
  }

  #asText(stage: StagePair): string {
    const { before, after } = this.#pair;
    const { rows } = unified(this.#rows(0, before, stage), this.#rows(1, after, stage), false);
    const sign = (row: Row) => (row.style === "removed" ? "-" : row.style === "added" ? "+" : " ");
    return [`--- ${this.#sides[0].name}`, `+++ ${this.#sides[1].name}`, ...rows.map(row => sign(row) + row.text)].join("\n");
  }
}

function differs({ state }: StagePair): boolean {
  return state !== "same" && state !== "renamed" && state !== "idle";
}

function side(version: Version, links: Links, lines: readonly string[]): Side {
  const held = new Signal(links);
  return { ...version, model: { links: held, palette: new Signal(new Palette(links, lines)), files: new Signal(comparable(version.record)) }, selection: new Selection(held) };
}
