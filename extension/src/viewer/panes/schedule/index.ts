// What became one kernel, in the order in which it runs, and for any two operations why they are or are not together.

import { because, becauseText } from "../../because";
import { codes, type Column, DataTable, figure } from "../../datatable";
import { button, fill, h, tool } from "../../dom";
import { key, parts, type Key } from "../../element";
import { Facets, facetsOf } from "../../facets";
import { bytes, count, phrase, seconds } from "../../format";
import { own } from "../../gather";
import { HalfChoice, type Looked } from "../../halfchoice";
import type { Context, Export, Pane, PaneKind } from "../../pane";
import { part, Picture, type Shown } from "../../picture";
import type { FusionData, HalfData, ItemData, OperationData } from "../../record";
import { rowsOf } from "../../rows";
import type { Dispose, Signal } from "../../signal";
import { artifact, whyNone } from "../../stages";
import { TextView } from "../../textview";
import { Walk } from "../../walk";
import { drawSchedule } from "./draw";
import { named } from "./named";
import { Pairs, type Explanation } from "./pairs";
import { find, kernelsAt, MOVES, outcome } from "./tries";
import { TITLES } from "../titles";

/** Steps that are drawn; more are a table alone. */
const MOST_DRAWN = 1500;

/** Reasons against fusion that the pane begins with. */
const MOST_NAMED = 3;

export const schedule: PaneKind = {
  id: "schedule",
  title: TITLES.schedule,
  open: (into, context) => new SchedulePane(into, context),
};

class SchedulePane implements Pane {
  readonly choice: HalfChoice;
  readonly #picture: Picture<ItemData>;
  readonly #verdicts: DataTable<FusionData>;
  readonly #facets: Facets;
  readonly #ok: Facets;
  readonly #text: TextView;
  readonly #textHead = h("h2", "Loop IR");
  readonly #answer = h("div.ex-answer", { role: "status" });
  readonly #selects: readonly [HTMLSelectElement, HTMLSelectElement];
  readonly #filters: { readonly codes: Signal<readonly string[]>; readonly ok: Signal<readonly string[]> };
  readonly #empty = h("div.ex-empty");
  readonly #body: HTMLElement;
  readonly #pair: HTMLElement;
  readonly #counted = h("p.ex-say");
  readonly #inside = h("ul.ex-list");
  readonly walk: Walk;
  readonly #came = h("p.ex-say", { role: "status" });
  #picked: string[] = [];
  #operations: ReadonlyMap<string, OperationData> = new Map();
  #times: ReadonlyMap<string, number | null | undefined> = new Map();
  #pairs: Pairs | null = null;
  readonly #disposers: Dispose[] = [];
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    this.choice = new HalfChoice(context);
    const select = (label: string) => h("select.ex-field", { "aria-label": label, onchange: () => this.#pick(this.#selects.map(each => each.value)) });
    this.#selects = [select("First operation"), select("Second operation")];
    const steps = new DataTable<ItemData>("Steps of the schedule", [], context.selection, { keys: item => this.#keysOf(item) });
    this.#picture = new Picture("What runs, in order", steps, context.selection, context.setting<Shown>("shown", "drawing"), of => this.#clicked(of), this.choice.element);
    this.#verdicts = new DataTable<FusionData>("Verdicts on pairs of operations", [], context.selection, {
      keys: each => [this.#key(each.first), this.#key(each.second)],
      chosen: each => this.#pick([each.first, each.second]),
      look: each => (each.ok ? "ex-yes" : "ex-no"),
    });
    this.#filters = { codes: context.setting<readonly string[]>("reasons", []), ok: context.setting<readonly string[]>("verdict", []) };
    this.#facets = new Facets("Show only these reasons", this.#filters.codes);
    this.#ok = new Facets("Show only", this.#filters.ok);
    const side = h("section.ex-picture.ex-loops", h("header", this.#textHead));
    this.#text = new TextView(side, context);
    this.#pair = this.#pairPart();
    const decisions = part("Fusion decisions", [this.#ok.element]);
    this.walk = new Walk(decisions, context.setting<string>("breakpoint", ""), {
      name: "Attempt", moves: MOVES, example: "refused:reduction", find: query => find(this.#tried, query), go: to => this.#try(to),
    });
    decisions.append(this.walk.element, this.#came, this.#facets.element, this.#inside, this.#verdicts.element);
    this.#body = h(
      "div.ex-schedule",
      h("div.ex-main", this.#counted, this.#picture.element, this.#pair, decisions), side,
    );
    into.append(this.#empty, h("div.ex-pad", this.#body));
    const again = () => this.#render(this.choice.looked.value);
    this.#disposers.push(
      this.choice.looked.watch(again),
      this.#filters.codes.watch(() => this.#showVerdicts()),
      this.#filters.ok.watch(() => this.#showVerdicts()),
    );
  }

  reveal(what: Key): boolean {
    const { compile, id } = parts(what);
    if (compile !== this.#context.compile.value) return false;
    this.choice.showWith(half => (half.schedule?.items ?? []).some(item => item.id === id || item.operations.includes(id)));
    return this.#picture.reveal(what);
  }

  exports(): readonly Export[] {
    const half = this.choice.looked.value?.half.name ?? "schedule";
    return [...this.#picture.exports(`${half}-schedule`), { kind: "txt", name: `${half}-verdicts`, make: async () => this.#verdicts.text() }];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.walk.end();
    for (const each of [this.choice, this.#picture, this.#verdicts, this.#text]) each.dispose();
  }

  get #half(): HalfData | undefined {
    return this.choice.looked.value?.half;
  }

  #key(id: string): Key {
    return key(this.#context.compile.value, id);
  }

  get #tried(): readonly FusionData[] {
    return this.#half?.schedule?.tried ?? [];
  }

  /** Shows what one attempt of fusion was, and what was together by then. */
  #try(at: number): void {
    this.walk.at = at;
    const tried = this.#tried[at];
    if (!tried) return fill(this.#came);
    const { first, second, why, score = 0 } = tried;
    const came = outcome(tried);
    const together = kernelsAt(this.#tried, at).map(each => each.map(id => this.#named(id)).join(" + "));
    this.#pick([first, second]);
    fill(this.#came,
      h("strong", { class: came === "refused" ? "ex-no" : "ex-yes" }, `${{ fused: "✓ fused", later: "put off", refused: "✕ refused" }[came]}: ${this.#named(first)} with ${this.#named(second)}`),
      " ", because(why, this.#context), score >= 1 ? `. It saves ${bytes(score)}` : "", `. Kernels by then: ${together.join("; ") || "none"}.`,
    );
  }

  #named(id: string): string {
    const operation = this.#operations.get(id);
    return operation ? named(operation, this.#context.compile.value, this.#context.model).own : id;
  }

  #keysOf(item: ItemData): Key[] {
    return [item.id, ...item.operations].map(id => this.#key(id));
  }

  #pairPart(): HTMLElement {
    const swap = tool("⇄", "Swap the two", () => this.#pick([this.#selects[1].value, this.#selects[0].value]));
    const selects = h("div.ex-pair", this.#selects[0], swap, this.#selects[1], h("span.ex-unsure", "or click two operations in the drawing"));
    return part("Why (not) fused?", [], selects, this.#answer);
  }

  #render(looked: Looked | null): void {
    const half = looked?.half;
    const there = (half?.schedule?.items.length ?? 0) > 0;
    this.#empty.hidden = there;
    this.#body.hidden = !there;
    if (!looked || !half || !there) {
      fill(this.#empty, h("p", whyNone("schedule", this.#context.looked.value)));
      return;
    }
    this.#operations = new Map((half.operations ?? []).map(each => [each.id, each]));
    this.#times = new Map((half.kernels ?? []).map(each => [each.id, each.seconds]));
    this.#pairs = new Pairs(half, id => this.#named(id));
    const operations = half.schedule?.items.flatMap(each => each.operations) ?? [];
    this.#picture.table.show(half.schedule?.items ?? [], this.#columns(half));
    this.#options(half);
    this.#pair.hidden = operations.length < 2;
    const kept = this.#picked.filter(id => operations.includes(id));
    const first = half.schedule?.fusions[0];
    this.#pick(kept.length === 2 ? kept : first ? [first.first, first.second] : operations.slice(0, 2));
    this.#try(-1);
    this.walk.show(this.#tried.length - 1);
    this.#draw();
    this.#showVerdicts();
    this.#showText(looked);
  }

  #seconds(half: HalfData, item: string): number | null {
    return this.#times.get(item) ?? own(half.extern_seconds, item) ?? null;
  }

  #columns(half: HalfData): Column<ItemData>[] {
    const order = new Map(half.schedule?.items.map((each, n) => [each.id, n]));
    const kernels = new Map((half.kernels ?? []).map(each => [each.id, each]));
    const operations = this.#operations;
    const runs = (item: ItemData) => (item.kind === "extern" ? operations.get(item.id)?.target : null) ?? item.operations.map(id => this.#named(id)).join(", ");
    const outside = (item: ItemData, side: "reads" | "writes") => {
      const own = new Set(item.operations.flatMap(id => operations.get(id)?.writes ?? []));
      const all = item.operations.flatMap(id => operations.get(id)?.[side] ?? []);
      const hidden = new Set(item.internal ?? []);
      return [...new Set(all)].filter(each => (side === "reads" ? !own.has(each) : !hidden.has(each))).join(", ");
    };
    return [
      figure("#", item => (order.get(item.id) ?? 0) + 1),
      codes("Step", item => item.id),
      { name: "Runs", text: runs },
      { name: "Over", text: item => phrase([item.outer, item.inner], " × ") },
      { name: "Reads", text: item => outside(item, "reads") },
      { name: "Writes", text: item => outside(item, "writes") },
      { name: "Kept in registers", text: item => (item.internal ?? []).join(", ") },
      figure("Moves", item => kernels.get(item.id)?.bytes, bytes),
      figure("Takes", item => this.#seconds(half, item.id), seconds),
    ];
  }

  #draw(): void {
    const looked = this.choice.looked.value;
    if (!looked) return;
    const facts = { half: looked.half, compile: looked.compile.id, seconds: (item: string) => this.#seconds(looked.half, item), named: (id: string) => this.#named(id) };
    this.#picture.show((width, linked) => {
      const drawn = drawSchedule(facts, width, linked);
      this.#markPicked(drawn);
      return drawn;
    }, (looked.half.schedule?.items.length ?? 0) <= MOST_DRAWN);
  }

  #markPicked(within: Element | null): void {
    within?.querySelectorAll<SVGElement>(".ex-op").forEach(each => each.classList.toggle("ex-picked", this.#picked.includes(each.dataset.operation ?? "")));
  }

  #options(half: HalfData): void {
    for (const select of this.#selects) {
      fill(select, ...(half.schedule?.items ?? []).map(item =>
        h("optgroup", { label: item.id }, ...item.operations.map(id => h("option", { value: id }, `${this.#named(id)} (${id})`)))));
    }
  }

  /** An operation was clicked: the pair is this one and the one clicked before. */
  #clicked(of: Key): void {
    const { id } = parts(of);
    if (!this.#operations.has(id) || id === this.#picked[1]) return;
    this.#pick([this.#picked[1] ?? id, id]);
  }

  #pick(pair: readonly string[]): void {
    const [first = "", second = ""] = pair;
    this.#picked = [first, second];
    this.#selects[0].value = first;
    this.#selects[1].value = second;
    const asked = this.#pairs && first && second ? this.#pairs.explain(first, second) : null;
    fill(this.#answer, ...(asked ? [...this.#told(asked), this.#forbid(asked.together)] : []));
    this.#markPicked(this.#picture.element);
  }

  #told({ together, headline, statements }: Explanation): HTMLElement[] {
    const standing = { recorded: "", inferred: "follows from the record", unknown: "the record does not tell" };
    return [
      h("p", { class: together ? "ex-yes" : "ex-no" }, h("strong", headline)),
      h("ul.ex-list", ...statements.map(each => h(
        "li", h("span", each.text, " "), each.why ? because(each.why, this.#context) : null,
        h("span.ex-standing", standing[each.standing]),
      ))),
    ];
  }

  /** Has the two that are picked compiled apart, or allows their fusion again. */
  #forbid(together: boolean): HTMLElement | string {
    const { abilities, edits } = this.#context;
    const graph = this.#half?.name ?? "";
    const kept = edits.changes.value.forbid ?? [];
    const others = kept.filter(([of, ...pair]) => of !== graph || !pair.every(id => this.#picked.includes(id)));
    const [first = "", second = ""] = this.#picked;
    const is = others.length < kept.length;
    if (!abilities.value?.passes || !is && !together) return "";
    return button("ex-action", is ? "Allow their fusion" : "Do not fuse these two", () => edits.change({ forbid: is ? others : [...kept, [graph, first, second]] }));
  }

  #showVerdicts(): void {
    const { fusions: all = [], otherwise = null } = this.#half?.schedule ?? {};
    const wanted = this.#filters;
    const byOk = (each: FusionData) => (each.ok ? "yes" : "no");
    const passes = (chosen: readonly string[], id: string) => chosen.length === 0 || chosen.includes(id);
    const okay = all.filter(each => passes(wanted.ok.value, byOk(each)));
    const offered = new Set(okay.map(each => each.why.code));
    const chosen = wanted.codes.value.filter(each => offered.has(each));
    const rows = okay.filter(each => passes(chosen, each.why.code));
    this.#ok.show(facetsOf(all, byOk, each => (each.ok ? "fused" : "not fused")));
    this.#facets.show(facetsOf(okay, each => each.why.code, each => each.why.title));
    const made = all.filter(each => each.ok).length;
    const against = facetsOf(all.filter(each => !each.ok), each => each.why.code, each => each.why.title).slice(0, MOST_NAMED);
    const { length: steps } = this.#half?.schedule?.items ?? [];
    fill(this.#counted,
      steps > MOST_DRAWN ? `${count(steps, "step")}: too many to draw, so the table has them. ` : "",
      all.length === 0 ? `No pair of operations was tried${otherwise ? `: ${otherwise.title}` : ""}. ` : `${made} of ${count(all.length, "pair")} of operations fused${against.length ? "; not fused: " : ""}${against.map(each => `${each.label} (${each.count})`).join("; ")}. `,
      button("ex-link", "Fusion decisions", () => this.#inside.parentElement?.scrollIntoView()),
    );
    const loops = (this.#half?.operations ?? []).map(each => named(each, this.#context.compile.value, this.#context.model));
    fill(this.#inside, ...loops.filter(each => each.inside.length).map(each =>
      h("li", h("strong", each.own), ` computes in the same loop: ${each.inside.join("; ")}`)));
    this.#verdicts.show(rows, [
      { name: "Verdict", text: each => (each.ok ? "fused" : "not fused"), cell: each => h("span", { class: each.ok ? "ex-yes" : "ex-no" }, each.ok ? "✓ fused" : "✕ not fused"), order: each => (each.ok ? 0 : 1) },
      { name: "First", text: each => this.#named(each.first) },
      { name: "Second", text: each => this.#named(each.second) },
      { name: "Because", text: each => becauseText(each.why), cell: each => because(each.why, this.#context), order: each => each.why.title },
      figure("Saves", each => each.score || null, bytes, "Bytes of memory traffic that joining the two saves, as scored"),
    ]);
  }

  #showText({ compile, half }: Looked): void {
    const stages = (compile.stages ?? []).filter(each => each.half === half.name);
    const stage = ["order", "fuse", "separate", "lower"].map(name => stages.find(each => each.name === name)).find(each => each);
    const body = stage ? artifact(compile, stage).body : null;
    this.#textHead.textContent = stage ? `Loop IR after “${stage.name}”` : "Loop IR";
    this.#text.show({ rows: rowsOf(body, compile, this.#context.model), language: body?.language ?? "text", label: "Loop IR of the schedule" });
  }
}
