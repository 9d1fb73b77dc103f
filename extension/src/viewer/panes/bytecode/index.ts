// The bytecode, before and after, and the evaluator that walked over it.

import { button, choose, fill, h, MOST_OPTIONS, on } from "../../dom";
import { key, parts } from "../../element";
import { count, fileName } from "../../format";
import type { Context, Pane } from "../../pane";
import type { BreakData, CodeData, CompileData, ValueData } from "../../record";
import { TextView } from "../../textview";
import { type Moves, Walk } from "../../walk";
import { listing, meaning, spanned, stackEffect } from "./listing";
import { type Added, added, aligned, byLine, find, type Instructions, instructions, marks, valueText, 
  type EvaluatorState, stateAt, stepChanges, stepOf } from "./steps";
import { ends } from "../../signal";
import { compileCalled } from "../../stages";

const ROLES: { readonly [role: string]: string } = {
  original: "original", rewritten: "rewritten: what runs instead",
  continuation: "continuations: what runs after a break",
  inlined: "inlined: functions called along the way",
};

const MOVES: Moves = {
  i: ["", "instruction"], l: ["line", "line"], o: ["over", "step over"], u: ["out", "step out"],
  n: ["node:", "graph node"],
  g: ["guard:", "guard"], e: ["effect:", "effect"], s: ["symbol:", "symbol"], b: ["break:", "break"],
};

/** Values that are listed, and the last guards, nodes and such: of all, each move would draw hundreds anew. */
const LISTED = 60;
const RECENT = 20;

export function bytecode(into: HTMLElement, context: Context): Pane {
  const codes = h("select.ex-select", { "aria-label": "Code object" });
  const details = h("div.ex-step", { role: "region", "aria-label": "Instruction and evaluator state", tabindex: 0 });
  const nothing = h("p.ex-hint");
  const changed = h("div");
  const body = h("div.ex-body-text");
  let shownCode: CodeData | undefined;
  let ops: Instructions = new Map();
  let additions: readonly Added[] = [];
  /** Containers whose items are shown. */
  const open = new Set<string>();
  let rowOf: ReadonlyMap<string, number> = new Map();
  let shownCompile = "";
  let was: CompileData | undefined;
  const current = (): CompileData | undefined => context.looked.value;
  const all = (): readonly CodeData[] => current()?.codes ?? [];
  const cursor = (step: number) => (walk.at = context.step.value = step);
  const pane = h("div.ex-pane");
  const walk = Walk(pane, context.breakpoint, {
    name: "Capture step", moves: MOVES, example: "guard:size depth>1",
    go, find: query => (current() ? find(current()!, ops, context.model.files.value, query) : []),
    marks: () => (current() ? marks(current()!, additions) : {}),
    way: (at, to, back) => byLine(current()!, ops, at, to, back),
  });
  pane.append(h("div.ex-bar", codes, walk.element), changed, nothing, body, details);
  into.append(pane);
  const view = TextView(body, context);
  on(codes, "change", () => showCode(all()[Number(codes.value)]));
  const { selection, looked } = context;
  const dispose = ends(
    () => (context.step.value = -1), walk.end,
    looked.watch(render), context.step.watch(markCell), selection.pinned.watch(follow),
    view,
  );

  function reveal(what: string): boolean {
    const { compile, id } = parts(what);
    if (compile === current()?.id && !rowOf.has(id)) showCode(holding(id) ?? shownCode);
    return view.reveal(what);
  }

  function exports() {
    const name = fileName(`${current()?.id ?? ""} ${shownCode?.name ?? "bytecode"} ${shownCode?.role ?? ""}`);
    return [{ kind: "txt" as const, name, make: async () => view.text }];
  }

  function holding(id: string): CodeData | undefined {
    return all().find(code => code.instructions.some(each => each.id === id));
  }

  function render(): void {
    const compile = current();
    if (compile?.id !== shownCompile) {
      shownCompile = compile?.id ?? "";
      cursor(-1);
      shownCode = undefined;
    } else if (compile && was && compile.trace !== was.trace && walk.at >= 0) {
      cursor(aligned(was, walk.at, compile));
    }
    was = compile;
    ops = compile ? instructions(compile) : new Map();
    additions = compile ? added(compile) : [];
    const groups = Object.entries(ROLES).flatMap(([role, label]) => {
      const options =
        all().slice(0, MOST_OPTIONS)
          .flatMap((code, n) => (code.role === role ? [h("option", { value: n }, labelOf(code))] : []));
      return options.length ? [h("optgroup", { label }, ...options)] : [];
    });
    fill(codes, ...groups);
    codes.hidden = all().length === 0;
    nothing.hidden = all().length > 0;
    nothing.textContent = compile?.engine === "stock"
      ? "Stock's bytecode and the steps of its capture are not in this record: torch's logs hold neither, "
        + "explorer.explore records them."
        : "No bytecode: another frontend captured the graph, or the capture has not ended.";
    body.hidden = all().length === 0;
    const same = all().find(code => code.name === shownCode?.name && code.role === shownCode.role);
    showCode(same ?? all()[0]);
    const lost = compile?.left_out?.EvaluatorStep ?? 0;
    walk.show((compile?.trace?.length ?? 0) - 1, lost ? `${count(lost, "later step")} not kept` : "");
    const before = context.edits.before.value?.compiles.find(each => each.id === compile?.id);
    const other = before && compile ? stepChanges(before, compile) : [];
    fill(changed,
      ...(other.length
        ? [
          h("details.ex-notice.ex-told",
            h("summary", `What the edit changed in the capture: ${count(other.length, "difference")}`),
            ...other.map(each => h("div", h("code", each))))] : []));
    describe();
  }

  /** A continuation by what it goes on with, too; one of several of its name by its role, or else its line. */
  function labelOf({ name, role, line }: CodeData): string {
    const called = compileCalled(context.model.record.value.compiles, name, shownCompile)?.called ?? name;
    const own = called.startsWith(name) ? called : `${called} (${name})`;
    const twins = all().filter(each => each.name === name);
    if (twins.length < 2) return own;
    return `${own}, ${role}` + (twins.filter(each => each.role === role).length < 2 ? "" : `, line ${line}`);
  }

  function showCode(code: CodeData | undefined): void {
    shownCode = code;
    const compile = current();
    if (!code || !compile) return view.show({ rows: [], language: "text", label: "Bytecode" });
    choose(codes, String(all().indexOf(code)), labelOf(code));
    const { rows, at } = listing(code, compile, context.model);
    rowOf = at;
    view.show({ rows, language: "bytecode", label: `Bytecode of ${code.name}, ${code.role}` });
    mark();
  }

  /** Marks the line of the step in the cell that it is of. */
  function markCell(): void {
    const { host, model, step } = context;
    const span = ops.get(current()?.trace?.[step.value]?.[0] ?? "")?.span;
    host.mark?.(span ? model.files.value.of(span.file) : "", span?.line ?? 0,
      span ? spanned(model.record.value, span).join("") : "");
  }

  function mark(): void {
    const id = current()?.trace?.[walk.at]?.[0];
    view.setCurrent(id === undefined ? -1 : (rowOf.get(id) ?? -1));
  }

  function go(to: number): void {
    const step = Math.max(0, to);
    const [id] = current()?.trace?.[step] ?? [];
    if (id === undefined) return;
    const stage = current()?.stages?.find(each => each.graph);
    if (stage) context.stage.value = stage.id;
    cursor(step);
    if (!rowOf.has(id)) showCode(holding(id) ?? shownCode);
    const what = key(shownCompile, id);
    if (selection.pinned.value === what) follow(what);
    else selection.pinned.value = what;
  }

  /** A pinned instruction takes the evaluator to where it ran. Where nothing is pinned, panes show all steps. */
  function follow(pinned: string | null): void {
    const { step } = context;
    if (pinned === null) {
      step.value = -1;
      return;
    }
    const { compile, id } = parts(pinned);
    const steps = current()?.trace ?? [];
    if (compile !== shownCompile) return;
    const at = steps[walk.at]?.[0] === id ? walk.at : stepOf(steps, id, Math.max(0, walk.at));
    if (at < 0 && !rowOf.has(id)) return;
    cursor(at);
    mark();
    describe(id);
  }

  function describe(id = current()?.trace?.[walk.at]?.[0]): void {
    const compile = current();
    const instruction = ops.get(id ?? "");
    details.hidden = !instruction || !compile;
    if (!instruction || !compile) return;
    const state = stateAt(compile, walk.at);
    const broke = compile.breaks?.find(each => each.instruction === id);
    const { span } = instruction;
    const [before, inside, after] = span ? spanned(context.model.record.value, span) : ["", "", ""];
    fill(details,
      h("div", h("code", h("strong", instruction.id)), ` ${meaning(instruction, context.model.record.value.meanings)}`),
      ...(span && before + inside + after
        ? [h("div", `${context.model.files.value.place(span.file, span.line)} `,
          h("code", before.trimStart(), h("mark.ex-span", inside), after))] : []),
      ...(broke ? [breakNotice(broke)] : []),
      ...(state
        ? [stateTables(compile, state)]
        : [
          h("p.ex-hint-inline",
            `Stack ${stackEffect(instruction.stack)}. Capture did not run this instruction, or its step was not `
              + `kept.`)]),
    );
  }

  function breakNotice({ why, continuation = "", instruction }: BreakData): HTMLElement {
    const { compiles } = context.model.record.value;
    const onwards = continuation.split(", ").flatMap(name => compileCalled(compiles, name, shownCompile) ?? [])
      .flatMap(({ id, called, title, inputs = [] }) => {
      const alive = inputs.flatMap(
        ({ role = "argument", source }) => (role === "argument" ? [source.replace(/^L\['(___)?(.*)'\]$/, "$2")] : []));
      return [button("ex-link", `Go on in ${id} ${called || title}`, () => (context.compile.value = id)),
        h("span", `live variables: ${alive.join(", ") || "none"}`)];
    });
    return h(
      "div.ex-notice.ex-warned", h("strong", `⤶ The graph ends here: ${why.title}`), h("span", why.detail ?? ""),
      button("ex-link", "What to do", () => context.show("breaks", key(shownCompile, instruction))), ...onwards,
    );
  }

  function stateTables(compile: CompileData, state: EvaluatorState): HTMLElement {
    const words = valueText(compile);
    const value = (of: ValueData, path: string, below = Infinity): (Node | string)[] => {
      const [, step = -1, items = []] = of;
      // A value holds earlier ones: a page that says otherwise would not end.
      const valued = items.filter(([, at]) => at < below && compile.values?.[at]).slice(0, LISTED);
      if (!valued.length) return [words(of), ...from(step)];
      const inside =
        h("details", { open: open.has(path) }, h("summary", words(of)),
          h("ul.ex-list", ...(step < 0 ? [] : [h("li", "made", ...from(step))]),
            ...valued.map(
              ([name, at]) => h("li", `${name}: `, ...value(compile.values![at]!, `${path}.${name}`, at)))));
      // The event "toggle" comes later than the next step may.
      on(inside.firstElementChild!, "click", () => (inside.open ? open.delete(path) : open.add(path)));
      return [inside];
    };
    const list = (title: string, rows: readonly HTMLElement[], start = rows.length) =>
      rows.length
        ? [h("section", h("h2", title), h("ol.ex-values", { reversed: true, start }, ...rows.slice(-LISTED).reverse()))]
        : [];
    const stack = state.stack.map((of, n) => item(n >= state.stack.length - state.freshStack, ...value(of, `${n}`)));
    const locals =
      [...state.locals].map(([name, of]) => item(state.freshLocals.has(name), `${name} = `, ...value(of, name)));
    const does = additions.filter(([step]) => step === walk.at);
    const soFar = ["node", "guard", "effect", "symbol"].flatMap(kind => {
      const made = additions.filter(([step, of]) => of === kind && step < walk.at);
      return list(`${kind[0]!.toUpperCase()}${kind.slice(1)}s so far (${made.length})`,
        made.slice(-RECENT).map(each => item(each[0] === walk.at - 1, ...link(compile, each))), made.length);
    });
    return h(
      "div.ex-state",
      ...list("This instruction adds",
        does.map(([, ...each]) => item(true, `${each[0]} `, ...link(compile, [-1, ...each])))),
      ...list(`Stack (${state.stack.length}, top first)`, stack), ...list(`Locals (${state.locals.size})`, locals),
      ...(state.givenUp ? [] : soFar),
      h("p.ex-hint-inline",
        `Before the instruction, in ${state.calls.join(" › ")}${state.givenUp ? "; discarded, to end the graph "
          + "earlier" : ""}. New values are marked •; @ is the step that made one.`),
    );
  }

  function link(compile: CompileData, [step, kind, text, id]: Added): (Node | string)[] {
    return [id ? button("ex-link", text,
      () => context.show(kind === "guard" ? "guards" : "graphs", key(compile.id, id))) : text, ...from(step)];
  }

  /** Leads to a step. */
  function from(step: number): (Node | string)[] {
    return step < 0 ? [] : [" ", button("ex-link", `@${step}`, () => go(step))];
  }

  return { walk, reveal, exports, dispose };
}

function item(fresh: boolean, ...holds: readonly (Node | string)[]): HTMLElement {
  return h("li", { class: fresh ? "ex-fresh" : "" }, ...holds);
}
