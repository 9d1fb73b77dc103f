// What became one kernel, in the order in which it runs, and for any two operations why they are or are not together.

import { reasonLink, reasonText } from "../../catalogue";
import { codes, type TableColumn, DataTable, figure } from "../../datatable";
import { button, choose, fill, h, MOST_OPTIONS, tool } from "../../dom";
import { key, parts, type Key } from "../../element";
import { Facets, facetsOf } from "../../choices";
import { bytes, count, phrase, seconds } from "../../format";
import { entry, own } from "../../collections";
import { HalfChoice, type Looked, type Context, type Export, type Pane } from "../../pane";
import { part, Picture, type Presentation } from "../../picture";
import type { BufferData, FusionData, HalfData, ItemData, OperationData } from "../../record";
import { rowsOf, TextView } from "../../textview";
import { ends, onChange } from "../../signal";
import { artifact, whyNone } from "../../stages";
import { Walk } from "../../walk";
import { drawSchedule, named, type OperationName } from "./draw";
import { Pairs, type Explanation, find, kernelsAt, MOVES, outcome } from "./fusion";

/** Steps that are drawn, and offered by name; more are a table alone. */
const MOST_DRAWN = 1500;

/** Reasons against fusion that the pane begins with. */
const MOST_NAMED = 3;

export function schedule(into: HTMLElement, context: Context): Pane {
  const textHead = h("h2", "Loop IR");
  const answer = h("div.ex-answer", { role: "status" });
  const empty = h("div.ex-empty");
  const counted = h("p.ex-say");
  const inside = h("ul.ex-list");
  const cameSay = h("p.ex-say", { role: "status" });
  let picked: string[] = [];
  let byId: ReadonlyMap<string, OperationData> = new Map();
  let buffers: ReadonlyMap<string, BufferData> = new Map();
  const names = new Map<string, OperationName>();
  let times: ReadonlyMap<string, number | null | undefined> = new Map();
  let pairs: Pairs | null = null;
  const half = (): HalfData | undefined => choice.looked.value?.half;
  const keyOf = (id: string): Key => key(context.compile.value, id);
  const attempts = (): readonly FusionData[] => half()?.schedule?.tried ?? [];
  const keysOf = (item: ItemData): Key[] => [item.id, ...item.operations].map(id => keyOf(id));
  const choice = HalfChoice(context);
  const select = (label: string) =>
    h("select.ex-field", { "aria-label": label, onchange: () => pick(pairSelects.map(each => each.value)) });
  const pairSelects = [select("First operation"), select("Second operation")] as const;
  const steps = DataTable<ItemData>("Steps of the schedule", [], context.selection, { keys: item => keysOf(item) });
  const picture = Picture("Kernels, in execution order", steps, context.selection,
    context.setting<Presentation>("shown", "drawing"), of => clicked(of), choice.element);
  const verdicts = DataTable<FusionData>("Verdicts on pairs of operations", [], context.selection, {
    keys: each => [keyOf(each.first), keyOf(each.second)],
    chosen: each => pick([each.first, each.second]),
    look: each => (each.ok ? "ex-yes" : "ex-no"),
  });
  const filters =
    { codes: context.setting<readonly string[]>("reasons", []), ok: context.setting<readonly string[]>("verdict", []) };
  const facets = Facets("Show only these reasons", filters.codes);
  const ok = Facets("Show only", filters.ok);
  const side = h("section.ex-picture.ex-loops", h("header", textHead));
  const text = TextView(side, context);
  const pair = pairPart();
  const decisions = part("Fusion decisions", [ok.element]);
  const walk = Walk(decisions, context.setting<string>("breakpoint", ""), {
    name: "Attempt", moves: MOVES, example: "refused:reduction", find: query => find(attempts(), query),
    go: to => attempt(to),
  });
  decisions.append(walk.element, cameSay, facets.element, inside, verdicts.element);
  const body = h(
    "div.ex-schedule",
    h("div.ex-main", counted, picture.element, pair, decisions), side,
  );
  into.append(empty, h("div.ex-pad", body));
  const dispose = ends(
    choice.looked.watch(render),
    onChange(filters.codes, showVerdicts), onChange(filters.ok, showVerdicts),
    walk.end, choice, picture, verdicts, text,
  );

  function reveal(what: Key): boolean {
    const { compile, id } = parts(what);
    if (compile !== context.compile.value) return false;
    choice.showWith(half => (half.schedule?.items ?? []).some(item => item.id === id || item.operations.includes(id)));
    return picture.reveal(what);
  }

  function exports(): readonly Export[] {
    const half = choice.looked.value?.half.name ?? "schedule";
    return [...picture.exports(`${half}-schedule`),
      { kind: "txt", name: `${half}-verdicts`, make: async () => verdicts.text() }];
  }

  /** Shows what one attempt of fusion was, and what was together by then. */
  function attempt(at: number): void {
    walk.at = at;
    const tried = attempts()[at];
    if (!tried) return fill(cameSay);
    const { first, second, why, score = 0 } = tried;
    const came = outcome(tried);
    const together = kernelsAt(attempts(), at).map(each => each.map(id => nameOf(id)).join(" + "));
    pick([first, second]);
    fill(cameSay,
      h("strong", { class: came === "refused" ? "ex-no" : "ex-yes" },
        { fused: "✓ fused", later: "postponed", refused: "✕ refused" }[came],
        `: ${nameOf(first)} with ${nameOf(second)}`),
      " ", reasonLink(why, context), score >= 1 ? `. It saves ${bytes(score)}` : "",
      `. Kernels so far: ${together.join("; ") || "none"}.`,
    );
  }

  function nameOf(id: string): string {
    return nameOfAny(id).own;
  }

  /** What an operation or a buffer is called, found once for each. */
  function nameOfAny(id: string): OperationName {
    const { origins = [] } = byId.get(id) ?? buffers.get(id) ?? {};
    return entry(names, id, () => named({ id, origins }, context.compile.value, context.model));
  }

  function pairPart(): HTMLElement {
    const swap = tool("⇄", "Swap the two", () => pick([pairSelects[1].value, pairSelects[0].value]));
    const selects = h("div.ex-pair", pairSelects[0], swap, pairSelects[1],
      h("span.ex-unsure", "or click two operations in the drawing"));
    return part("Why (not) fused?", [], selects, answer);
  }

  function render(looked: Looked | null): void {
    const half = looked?.half;
    const there = (half?.schedule?.items.length ?? 0) > 0;
    empty.hidden = there;
    body.hidden = !there;
    if (!looked || !half || !there) {
      fill(empty, h("p", whyNone("schedule", context.looked.value)));
      return;
    }
    byId = new Map((half.operations ?? []).map(each => [each.id, each]));
    buffers = new Map((half.buffers ?? []).map(each => [each.name, each]));
    names.clear();
    times = new Map((half.kernels ?? []).map(each => [each.id, each.seconds]));
    pairs = Pairs(half, id => nameOf(id));
    const operations = half.schedule?.items.flatMap(each => each.operations) ?? [];
    picture.table.show(half.schedule?.items ?? [], columns(half));
    options(half);
    pair.hidden = operations.length < 2;
    const kept = picked.filter(id => operations.includes(id));
    const first = half.schedule?.fusions[0];
    pick(kept.length === 2 ? kept : first ? [first.first, first.second] : operations.slice(0, 2));
    attempt(-1);
    walk.show(attempts().length - 1);
    draw();
    showVerdicts();
    showText(looked);
  }

  function secondsOf(half: HalfData, item: string): number | null {
    return times.get(item) ?? own(half.extern_seconds, item) ?? null;
  }

  function columns(half: HalfData): TableColumn<ItemData>[] {
    const order = new Map(half.schedule?.items.map((each, n) => [each.id, n]));
    const kernels = new Map((half.kernels ?? []).map(each => [each.id, each]));
    const operations = byId;
    const runs = (item: ItemData) => (item.kind === "extern" ? operations.get(item.id)?.target : null)
      ?? item.operations.map(id => nameOf(id)).join(", ");
    const outside = (item: ItemData, side: "reads" | "writes") => {
      const own = new Set(item.operations.flatMap(id => operations.get(id)?.writes ?? []));
      const all = item.operations.flatMap(id => operations.get(id)?.[side] ?? []);
      const hidden = new Set(item.internal ?? []);
      return [...new Set(all)].filter(each => (side === "reads" ? !own.has(each) : !hidden.has(each))).join(", ");
    };
    return [
      figure("#", item => (order.get(item.id) ?? 0) + 1),
      codes("Step", item => item.id),
      { name: "Operations", text: runs },
      { name: "Loop sizes", text: item => phrase([item.outer, item.inner], " × ") },
      { name: "Reads", text: item => outside(item, "reads") },
      { name: "Writes", text: item => outside(item, "writes") },
      { name: "Kept in registers", text: item => (item.internal ?? []).join(", ") },
      figure("Bytes moved", item => kernels.get(item.id)?.bytes, bytes),
      figure("Time", item => secondsOf(half, item.id), seconds),
    ];
  }

  function draw(): void {
    const looked = choice.looked.value;
    if (!looked) return;
    const facts = { half: looked.half, compile: looked.compile.id,
      seconds: (item: string) => secondsOf(looked.half, item), named: (id: string) => nameOf(id) };
    picture.show((width, linked) => {
      const drawn = drawSchedule(facts, width, linked);
      markPicked(drawn);
      return drawn;
    }, (looked.half.schedule?.items.length ?? 0) <= MOST_DRAWN);
  }

  function markPicked(within: Element | null): void {
    within?.querySelectorAll<SVGElement>(".ex-op")
      .forEach(each => each.classList.toggle("ex-picked", picked.includes(each.dataset.operation ?? "")));
  }

  function options(half: HalfData): void {
    for (const select of pairSelects) {
      let left = MOST_OPTIONS;
      fill(select, ...(half.schedule?.items ?? []).slice(0, MOST_OPTIONS).map(({ id, operations }) => {
        const listed = operations.slice(0, left);
        left -= listed.length;
        return h("optgroup", { label: id }, ...listed.map(id => h("option", { value: id }, `${nameOf(id)} (${id})`)));
      }));
    }
  }

  /** An operation was clicked: the pair is this one and the one clicked before. */
  function clicked(of: Key): void {
    const { id } = parts(of);
    if (!byId.has(id) || id === picked[1]) return;
    pick([picked[1] ?? id, id]);
  }

  function pick(pair: readonly string[]): void {
    const [first = "", second = ""] = pair;
    picked = [first, second];
    pair.forEach((id, n) => choose(pairSelects[n]!, id, `${nameOf(id)} (${id})`));
    const asked = pairs && first && second ? pairs.explain(first, second) : null;
    fill(answer, ...(asked ? [...describe(asked), forbid(asked.together)] : []));
    markPicked(picture.element);
  }

  function describe({ together, headline, statements }: Explanation): HTMLElement[] {
    return [
      h("p", { class: together ? "ex-yes" : "ex-no" }, h("strong", headline)),
      h("ul.ex-list", ...statements.map(({ text, why }) => h("li", `${text} `, why ? reasonLink(why, context) : null))),
    ];
  }

  /** Has the two that are picked compiled apart, or allows their fusion again. */
  function forbid(together: boolean): HTMLElement | string {
    const { abilities, edits } = context;
    const graph = half()?.name ?? "";
    const kept = edits.changes.value.forbid ?? [];
    const others = kept.filter(([of, ...pair]) => of !== graph || !pair.every(id => picked.includes(id)));
    const [first = "", second = ""] = picked;
    const is = others.length < kept.length;
    if (!abilities.value?.passes || !is && !together) return "";
    return button("ex-action", is ? "Allow their fusion" : "Do not fuse these two",
      () => edits.change({ forbid: is ? others : [...kept, [graph, first, second]] }));
  }

  function showVerdicts(): void {
    const { fusions: all = [], otherwise = null } = half()?.schedule ?? {};
    const wanted = filters;
    const byOk = (each: FusionData) => (each.ok ? "yes" : "no");
    const passes = (chosen: readonly string[], id: string) => chosen.length === 0 || chosen.includes(id);
    const okay = all.filter(each => passes(wanted.ok.value, byOk(each)));
    const offered = new Set(okay.map(each => each.why.code));
    const chosen = wanted.codes.value.filter(each => offered.has(each));
    const rows = okay.filter(each => passes(chosen, each.why.code));
    ok.show(facetsOf(all, byOk, each => (each.ok ? "fused" : "not fused")));
    facets.show(facetsOf(okay, each => each.why.code, each => each.why.title));
    const made = all.filter(each => each.ok).length;
    const against = facetsOf(all.filter(each => !each.ok), each => each.why.code, each => each.why.title).slice(0,
      MOST_NAMED);
    const { length: steps } = half()?.schedule?.items ?? [];
    const loops = (half()?.operations ?? []).map(each => nameOfAny(each.id))
      .filter(each => each.inside.length);
    fill(counted,
      loops.length ? `${count(loops.flatMap(each => each.inside).length, "operation")} inlined into other loops. ` : "",
      steps > MOST_DRAWN ? `${count(steps, "step")}: too many to draw, so the table has them. ` : "",
      all.length === 0
        ? (loops.length ? "" : `No pair of operations was tried${otherwise ? `: ${otherwise.title}` : ""}. `)
        : `${made} of ${count(all.length, "pair")} of operations fused${against.length ? "; not fused: " : ""}`
          + `${against.map(each => `${each.label} (${each.count})`).join("; ")}. `,
      button("ex-link", "Fusion decisions", () => inside.parentElement?.scrollIntoView()),
    );
    fill(inside, ...loops.slice(0, MOST_OPTIONS).map(each =>
      h("li", h("strong", each.own), ` computes in the same loop: ${each.inside.join("; ")}`)));
    verdicts.show(rows, [
      { name: "Verdict", text: each => (each.ok ? "fused" : "not fused"),
        cell: each => h("span", { class: each.ok ? "ex-yes" : "ex-no" }, each.ok ? "✓ fused" : "✕ not fused"),
        order: each => (each.ok ? 0 : 1) },
      { name: "First", text: each => nameOf(each.first) },
      { name: "Second", text: each => nameOf(each.second) },
      { name: "Reason", text: each => reasonText(each.why), cell: each => reasonLink(each.why, context),
        order: each => each.why.title },
      figure("Saves", each => each.score || null, bytes),
    ]);
  }

  function showText({ compile, half }: Looked): void {
    const stages = (compile.stages ?? []).filter(each => each.half === half.name);
    const stage =
      ["order", "fuse", "separate", "lower"].map(name => stages.find(each => each.name === name)).find(each => each);
    const body = stage ? artifact(compile, stage).body : null;
    textHead.textContent =
      stage ? stage.name === "order" ? "Loop IR (final)" : `Loop IR after “${stage.name}”` : "Loop IR";
    text.show({ rows: rowsOf(body, compile, context.model), language: body?.language ?? "text",
      label: "Loop IR of the schedule" });
  }

  return { choice, walk, reveal, exports, dispose };
}
