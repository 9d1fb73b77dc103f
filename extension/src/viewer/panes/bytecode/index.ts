// The bytecode, before and after, and the evaluator that walked over it.

import { button, fill, h, on } from "../../dom";
import { key, parts } from "../../element";
import { fileName } from "../../filename";
import { count } from "../../format";
import type { Context, Pane, PaneKind } from "../../pane";
import type { BreakData, CodeData, CompileData, ValueData } from "../../record";
import { TextView } from "../../textview";
import { type Moves, Walk } from "../../walk";
import { listing, meaning, spanned, stackEffect } from "./listing";
import { type Added, added, aligned, byLine, find, type Instructions, instructions, marks, said, type State, stateAt, stepChanges, stepOf } from "./steps";
import { TITLES } from "../titles";

const ROLES: { readonly [role: string]: string } = {
  original: "original", rewritten: "rewritten: what runs instead", continuation: "continuations: what goes on after a break",
  inlined: "inlined: functions called along the way",
};

const MOVES: Moves = {
  i: ["", "instruction"], l: ["line", "line"], o: ["over", "line, over calls"], u: ["out", "out of function"], n: ["node:", "graph node"],
  g: ["guard:", "guard"], e: ["effect:", "effect"], s: ["symbol:", "symbol"], b: ["break:", "break"],
};

/** Guards, nodes and such that are listed. */
const LISTED = 60;

export const bytecode: PaneKind = {
  id: "bytecode",
  title: TITLES.bytecode,
  open: (into, context) => new Bytecode(into, context),
};

class Bytecode implements Pane {
  readonly #codes = h("select.ex-select", { "aria-label": "Code object" });
  readonly walk: Walk;
  readonly #details = h("div.ex-step", { role: "region", "aria-label": "Instruction and evaluator state", tabindex: 0 });
  readonly #nothing = h("p.ex-hint");
  readonly #changed = h("div");
  readonly #body = h("div.ex-body-text");
  readonly #view: TextView;
  readonly #disposers: (() => void)[];
  #code: CodeData | undefined;
  #ops: Instructions = new Map();
  #added: readonly Added[] = [];
  /** Containers whose items are shown. */
  readonly #open = new Set<string>();
  #at: ReadonlyMap<string, number> = new Map();
  #shownCompile = "";
  #was: CompileData | undefined;
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    const pane = h("div.ex-pane");
    this.walk = new Walk(pane, context.breakpoint, {
      name: "Evaluator step", moves: MOVES, example: "guard:size depth>1",
      find: query => (this.#compile ? find(this.#compile, this.#ops, context.model.files.value, query) : []),
      marks: () => (this.#compile ? marks(this.#compile, this.#added) : {}),
      go: to => this.#go(to),
      way: (at, to, back) => byLine(this.#compile!, this.#ops, at, to, back),
    });
    pane.append(h("div.ex-bar", this.#codes, this.walk.element), this.#changed, this.#nothing, this.#body, this.#details);
    into.append(pane);
    this.#view = new TextView(this.#body, context);
    on(this.#codes, "change", () => this.#showCode(this.#all[Number(this.#codes.value)]));
    const { selection, looked } = context;
    this.#disposers = [
      looked.watch(() => this.#render()), context.step.watch(() => this.#markCell()), selection.pinned.watch(pinned => this.#follow(pinned)),
    ];
  }

  reveal(what: string): boolean {
    const { compile, id } = parts(what);
    if (compile === this.#compile?.id && !this.#at.has(id)) this.#showCode(this.#holding(id) ?? this.#code);
    return this.#view.reveal(what);
  }

  exports() {
    const name = fileName(`${this.#compile?.id ?? ""} ${this.#code?.name ?? "bytecode"} ${this.#code?.role ?? ""}`);
    return [{ kind: "txt" as const, name, make: async () => this.#view.text }];
  }

  dispose(): void {
    this.#context.step.value = -1;
    this.walk.end();
    this.#disposers.forEach(dispose => dispose());
    this.#view.dispose();
  }

  get #compile(): CompileData | undefined {
    return this.#context.looked.value;
  }

  get #all(): readonly CodeData[] {
    return this.#compile?.codes ?? [];
  }

  #holding(id: string): CodeData | undefined {
    return this.#all.find(code => code.instructions.some(each => each.id === id));
  }

  #render(): void {
    const compile = this.#compile;
    if (compile?.id !== this.#shownCompile) {
      this.#shownCompile = compile?.id ?? "";
      this.#cursor(-1);
      this.#code = undefined;
    } else if (compile && this.#was && compile.trace !== this.#was.trace && this.walk.at >= 0) {
      this.#cursor(aligned(this.#was, this.walk.at, compile));
    }
    this.#was = compile;
    this.#ops = compile ? instructions(compile) : new Map();
    this.#added = compile ? added(compile) : [];
    const groups = Object.entries(ROLES).flatMap(([role, label]) => {
      const options = this.#all.flatMap((code, n) => (code.role === role ? [h("option", { value: n }, this.#label(code))] : []));
      return options.length ? [h("optgroup", { label }, ...options)] : [];
    });
    fill(this.#codes, ...groups);
    this.#codes.hidden = this.#all.length === 0;
    this.#nothing.hidden = this.#all.length > 0;
    this.#nothing.textContent = compile?.engine === "stock"
      ? "Stock's bytecode is not in this record." : "No bytecode is here: the graph was captured by another front end, or the capture has not ended.";
    this.#body.hidden = this.#all.length === 0;
    const same = this.#all.find(code => code.name === this.#code?.name && code.role === this.#code.role);
    this.#showCode(same ?? this.#all[0]);
    const lost = compile?.left_out?.EvaluatorStep ?? 0;
    this.walk.show((compile?.trace?.length ?? 0) - 1, lost ? `${count(lost, "later one")} not kept` : "");
    const before = this.#context.edits.before.value?.compiles.find(each => each.id === compile?.id);
    const other = before && compile ? stepChanges(before, compile) : [];
    fill(this.#changed, ...(other.length ? [h("details.ex-notice.ex-told", h("summary", `What the edit changed in the capture: ${count(other.length, "difference")}`), ...other.map(each => h("div", h("code", each))))] : []));
    this.#describe();
  }

  /** A continuation by what it goes on with, too; one of several of its name by its role, or else its line. */
  #label({ name, role, line }: CodeData): string {
    const called = this.#context.model.record.value.compiles.find(each => each.title === name)?.called ?? name;
    const own = called === name ? name : `${called} (${name})`;
    const twins = this.#all.filter(each => each.name === name);
    if (twins.length < 2) return own;
    return `${own}, ${role}` + (twins.filter(each => each.role === role).length < 2 ? "" : `, line ${line}`);
  }

  #showCode(code: CodeData | undefined): void {
    this.#code = code;
    const compile = this.#compile;
    if (!code || !compile) return this.#view.show({ rows: [], language: "text", label: "Bytecode" });
    this.#codes.value = String(this.#all.indexOf(code));
    const { rows, at } = listing(code, compile, this.#context.model);
    this.#at = at;
    this.#view.show({ rows, language: "bytecode", label: `Bytecode of ${code.name}, ${code.role}` });
    this.#mark();
  }

  /** Marks the line of the step in the cell that it is of. */
  #markCell(): void {
    const { host, model, step } = this.#context;
    const span = this.#ops.get(this.#compile?.trace?.[step.value]?.[0] ?? "")?.span;
    host.mark?.(span ? model.files.value.of(span.file) : "", span?.line ?? 0, span ? spanned(model.record.value, span).join("") : "");
  }

  #mark(): void {
    const id = this.#compile?.trace?.[this.walk.at]?.[0];
    this.#view.setCurrent(id === undefined ? -1 : (this.#at.get(id) ?? -1));
  }

  #go(to: number): void {
    const step = Math.max(0, to);
    const [id] = this.#compile?.trace?.[step] ?? [];
    if (id === undefined) return;
    const stage = this.#compile?.stages?.find(each => each.graph);
    if (stage) this.#context.stage.value = stage.id;
    this.#cursor(step);
    if (!this.#at.has(id)) this.#showCode(this.#holding(id) ?? this.#code);
    this.#context.selection.pinned.value = key(this.#shownCompile, id);
    this.#mark();
    this.#describe();
  }

  #cursor(step: number): void {
    this.walk.at = this.#context.step.value = step;
  }

  /** A pinned instruction takes the evaluator to where it ran. Where nothing is pinned, panes show all steps. */
  #follow(pinned: string | null): void {
    const { step } = this.#context;
    if (pinned === null) {
      step.value = -1;
      return;
    }
    const { compile, id } = parts(pinned);
    const steps = this.#compile?.trace ?? [];
    if (compile !== this.#shownCompile) return;
    const at = steps[this.walk.at]?.[0] === id ? this.walk.at : stepOf(steps, id, Math.max(0, this.walk.at));
    if (at < 0 && !this.#at.has(id)) return;
    this.#cursor(at);
    this.#mark();
    this.#describe(id);
  }

  #describe(id = this.#compile?.trace?.[this.walk.at]?.[0]): void {
    const compile = this.#compile;
    const instruction = this.#ops.get(id ?? "");
    this.#details.hidden = !instruction || !compile;
    if (!instruction || !compile) return;
    const state = stateAt(compile, this.walk.at);
    const broke = compile.breaks?.find(each => each.instruction === id);
    const { span } = instruction;
    const [before, inside, after] = span ? spanned(this.#context.model.record.value, span) : ["", "", ""];
    fill(this.#details,
      h("div", h("code", h("strong", instruction.id)), ` ${meaning(instruction, this.#context.model.record.value.meanings)}`),
      ...(span && before + inside + after
        ? [h("div", `${this.#context.model.files.value.place(span.file, span.line)} `, h("code", before.trimStart(), h("mark.ex-span", inside), after))] : []),
      ...(broke ? [this.#breakNotice(broke)] : []),
      ...(state ? [this.#stateTables(compile, state)] : [h("p.ex-hint-inline", `Stack ${stackEffect(instruction.stack)}. The evaluator did not run this instruction, or its step was not kept.`)]),
    );
  }

  #breakNotice({ why, continuation = "", instruction }: BreakData): HTMLElement {
    const onwards = this.#context.model.record.value.compiles.filter(each => continuation.split(", ").includes(each.title)).flatMap(({ id, called, title, inputs = [] }) => {
      const alive = inputs.flatMap(({ role = "argument", source }) => (role === "argument" ? [source.replace(/^L\['(___)?(.*)'\]$/, "$2")] : []));
      return [button("ex-link", `Go on in ${id} ${called || title}`, () => (this.#context.compile.value = id)), h("span", `with ${alive.join(", ") || "nothing"}`)];
    });
    return h(
      "div.ex-notice.ex-warned", h("strong", `⤶ The graph ends here: ${why.title}`), h("span", why.detail ?? ""),
      button("ex-link", "What to do", () => this.#context.show("breaks", key(this.#shownCompile, instruction))), ...onwards,
    );
  }

  #stateTables(compile: CompileData, state: State): HTMLElement {
    const words = said(compile);
    const value = (of: ValueData, path: string, below = Infinity): (Node | string)[] => {
      const [, step = -1, items = []] = of;
      // A value holds earlier ones: a page that says otherwise would not end.
      const held = items.filter(([, at]) => at < below && compile.values?.[at]).slice(0, LISTED);
      if (!held.length) return [words(of), ...this.#from(step)];
      const inside = h("details", { open: this.#open.has(path) }, h("summary", words(of)), h("ul.ex-list", ...(step < 0 ? [] : [h("li", "made", ...this.#from(step))]), ...held.map(([name, at]) => h("li", `${name}: `, ...value(compile.values![at]!, `${path}.${name}`, at)))));
      on(inside, "toggle", () => (inside.open ? this.#open.add(path) : this.#open.delete(path)));
      return [inside];
    };
    const list = (title: string, rows: readonly HTMLElement[], start = rows.length) =>
      rows.length ? [h("section", h("h2", title), h("ol.ex-values", { reversed: true, start }, ...rows.slice(-LISTED).reverse()))] : [];
    const stack = state.stack.map((of, n) => item(n >= state.stack.length - state.freshStack, ...value(of, `${n}`)));
    const locals = [...state.locals].map(([name, of]) => item(state.freshLocals.has(name), `${name} = `, ...value(of, name)));
    const does = this.#added.filter(([step]) => step === this.walk.at);
    const soFar = ["node", "guard", "effect", "symbol"].flatMap(kind => {
      const made = this.#added.filter(([step, of]) => of === kind && step < this.walk.at);
      return list(`${kind}s so far (${made.length})`, made.slice(-LISTED).map(each => item(each[0] === this.walk.at - 1, ...this.#link(compile, each))), made.length);
    });
    return h(
      "div.ex-state",
      ...list("This instruction adds", does.map(([, ...each]) => item(true, `${each[0]} `, ...this.#link(compile, [-1, ...each])))),
      ...list(`Stack (${state.stack.length}, top first)`, stack), ...list(`Locals (${state.locals.size})`, locals),
      ...(state.givenUp ? [] : soFar),
      h("p.ex-hint-inline", `Before the instruction, in ${state.calls.join(" › ")}${state.givenUp ? "; given up, to end the graph earlier" : ""}. New values are marked •; @ is the step that made one.`),
    );
  }

  #link(compile: CompileData, [step, kind, text, id]: Added): (Node | string)[] {
    return [id ? button("ex-link", text, () => this.#context.show(kind === "guard" ? "guards" : "graphs", key(compile.id, id))) : text, ...this.#from(step)];
  }

  /** Leads to a step. */
  #from(step: number): (Node | string)[] {
    return step < 0 ? [] : [" ", button("ex-link", `@${step}`, () => this.#go(step))];
  }
}

function item(fresh: boolean, ...holds: readonly (Node | string)[]): HTMLElement {
  return h("li", { class: fresh ? "ex-fresh" : "" }, ...holds);
}
