// The bytecode, before and after, and the evaluator that walked over it.

import { button, h, tool } from "../../dom";
import { key, parts } from "../../element";
import { fileName } from "../../filename";
import { count } from "../../format";
import type { Context, Pane, PaneKind } from "../../pane";
import type { BreakData, CodeData, CompileData } from "../../record";
import { TextView } from "../../textview";
import { listing, meaning, spanned, stackEffect } from "./listing";
import { type State, stateAt, stepOf } from "./steps";
import { TITLES } from "../titles";

const ROLES: { readonly [role: string]: string } = {
  original: "original", rewritten: "rewritten: what runs instead", continuation: "continuations: what goes on after a break",
  inlined: "inlined: functions called along the way",
};

export const bytecode: PaneKind = {
  id: "bytecode",
  title: TITLES.bytecode,
  about: {
    text:
      "The instructions of the function, in a set that is the same for all versions of Python; what runs instead of them once the "
      + "graph is compiled; the functions that go on after a graph break; and the functions that were inlined. The slider walks "
      + "through the symbolic evaluation: before each instruction, the stack and the locals hold descriptions of values instead of "
      + "values, and the graph has grown by what the instructions so far did to tensors.",
    paper: "Symbolic evaluation and code generation of TorchDynamo (sections 3.3 to 3.6).",
    stock: "torch/_dynamo/symbolic_convert.py, InstructionTranslator; TORCH_LOGS=\"bytecode,trace_bytecode\".",
  },
  open: (into, context) => new Bytecode(into, context),
};

class Bytecode implements Pane {
  readonly #codes = h("select.ex-select", { "aria-label": "Code object" });
  readonly #slider = h("input.ex-slider", { type: "range", min: 0, step: 1, "aria-label": "Evaluator step" });
  readonly #told = h("output.ex-step-told");
  readonly #walk: HTMLElement;
  readonly #details = h("div.ex-step", { role: "region", "aria-label": "Instruction and evaluator state", tabindex: 0 });
  readonly #nothing = h("p.ex-hint");
  readonly #body = h("div.ex-body-text");
  readonly #view: TextView;
  readonly #disposers: (() => void)[];
  #code: CodeData | undefined;
  #at: ReadonlyMap<string, number> = new Map();
  #step = -1;
  #shownCompile = "";
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    const step = (sign: string, name: string, to: () => number) => tool(sign, name, () => this.#go(to()));
    this.#walk = h(
      "div.ex-walk", { role: "group", "aria-label": "Evaluator steps" },
      step("|◀", "First step", () => 0), step("◀", "Step back ( [ )", () => this.#step - 1), this.#slider,
      step("▶", "Step forward ( ] )", () => this.#step + 1), step("▶|", "Last step", () => this.#last), this.#told,
    );
    const pane = h("div.ex-pane", h("div.ex-bar", this.#codes, this.#walk), this.#nothing, this.#body, this.#details);
    into.append(pane);
    this.#view = new TextView(this.#body, context);
    this.#codes.addEventListener("change", () => this.#showCode(this.#all[Number(this.#codes.value)]));
    this.#slider.addEventListener("input", () => this.#go(Number(this.#slider.value)));
    pane.addEventListener("keydown", event => {
      if (event.key !== "[" && event.key !== "]") return;
      this.#go(this.#step + (event.key === "]" ? 1 : -1));
      event.preventDefault();
    });
    const { selection, model, compile } = context;
    this.#disposers = [
      model.record.watch(() => this.#render()), compile.watch(() => this.#render()), selection.pinned.watch(pinned => this.#follow(pinned)),
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
    this.#disposers.forEach(dispose => dispose());
    this.#view.dispose();
  }

  get #compile(): CompileData | undefined {
    return this.#context.model.compile(this.#context.compile.value);
  }

  get #all(): readonly CodeData[] {
    return this.#compile?.codes ?? [];
  }

  get #last(): number {
    return (this.#compile?.steps?.length ?? 0) - 1;
  }

  #holding(id: string): CodeData | undefined {
    return this.#all.find(code => code.instructions.some(each => each.id === id));
  }

  #render(): void {
    const compile = this.#compile;
    if (compile?.id !== this.#shownCompile) {
      this.#shownCompile = compile?.id ?? "";
      this.#step = -1;
      this.#code = undefined;
    }
    const groups = Object.entries(ROLES).flatMap(([role, label]) => {
      const options = this.#all.flatMap((code, n) => (code.role === role ? [h("option", { value: n }, code.name)] : []));
      return options.length ? [h("optgroup", { label }, ...options)] : [];
    });
    this.#codes.replaceChildren(...groups);
    this.#codes.hidden = this.#all.length === 0;
    this.#walk.hidden = this.#last < 0;
    this.#slider.max = String(Math.max(0, this.#last));
    this.#nothing.hidden = this.#all.length > 0;
    this.#nothing.textContent = compile?.engine === "stock"
      ? "Stock's bytecode is not in this record." : "No bytecode is here: the graph was captured by another front end, or the capture has not ended.";
    this.#body.hidden = this.#all.length === 0;
    const same = this.#all.find(code => code.name === this.#code?.name && code.role === this.#code.role);
    this.#showCode(same ?? this.#all[0]);
    this.#describe();
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

  #mark(): void {
    const id = this.#compile?.steps?.[this.#step]?.[0];
    this.#view.setCurrent(id === undefined ? -1 : (this.#at.get(id) ?? -1));
  }

  #go(to: number): void {
    const step = Math.max(0, Math.min(to, this.#last));
    const [id] = this.#compile?.steps?.[step] ?? [];
    if (id === undefined) return;
    this.#step = step;
    if (!this.#at.has(id)) this.#showCode(this.#holding(id) ?? this.#code);
    this.#context.selection.pinned.value = key(this.#shownCompile, id);
    this.#mark();
    this.#describe();
  }

  /** A pinned instruction takes the evaluator to where it ran. */
  #follow(pinned: string | null): void {
    if (pinned === null) return;
    const { compile, id } = parts(pinned);
    const steps = this.#compile?.steps ?? [];
    if (compile !== this.#shownCompile || steps[this.#step]?.[0] === id) return;
    const step = stepOf(steps, id, Math.max(0, this.#step));
    if (step >= 0) this.#step = step;
    else if (!this.#at.has(id)) return;
    else this.#step = -1;
    this.#mark();
    this.#describe(id);
  }

  #describe(id = this.#compile?.steps?.[this.#step]?.[0]): void {
    const compile = this.#compile;
    const steps = this.#last + 1;
    const lost = compile?.left_out?.EvaluatorStep ?? 0;
    this.#slider.value = String(Math.max(0, this.#step));
    this.#slider.setAttribute("aria-valuetext", this.#step < 0 ? "not started" : `step ${this.#step + 1} of ${steps}, ${id ?? ""}`);
    this.#told.textContent = (this.#step < 0 ? count(steps, "evaluator step") : `step ${this.#step + 1} of ${steps}`) + (lost ? `; ${count(lost, "later one")} not kept` : "");
    const instruction = id === undefined ? undefined : this.#all.flatMap(code => code.instructions).find(each => each.id === id);
    this.#details.hidden = !instruction || !compile;
    if (!instruction || !compile) return;
    const state = stateAt(compile, this.#step);
    const broke = compile.breaks?.find(each => each.instruction === id);
    const { span } = instruction;
    const [before, inside, after] = span ? spanned(this.#context.model.record.value, span) : ["", "", ""];
    this.#details.replaceChildren(
      h("div", h("code", h("strong", instruction.id)), ` ${meaning(instruction, this.#context.model.record.value.meanings)}`),
      ...(span && before + inside + after
        ? [h("div", `${this.#context.model.files.value.place(span.file, span.line)} `, h("code", before.trimStart(), h("mark.ex-span", inside), after))] : []),
      ...(broke ? [this.#breakNotice(broke)] : []),
      ...(state ? [this.#stateTables(compile, state)] : [h("p.ex-hint-inline", `Stack ${stackEffect(instruction.stack)}. The evaluator did not run this instruction, or its step was not kept.`)]),
    );
  }

  #breakNotice(broke: BreakData): HTMLElement {
    const onwards = (broke.continuation ?? "").split(", ").filter(Boolean).flatMap(name => {
      const next = this.#context.model.record.value.compiles.find(each => each.title === name);
      return next ? [button("ex-link", `Go on in ${next.id} ${name}`, () => (this.#context.compile.value = next.id))] : [];
    });
    return h(
      "div.ex-notice.ex-warned",
      h("strong", `⤶ The graph ends here: ${broke.why.title}`), h("span", broke.why.detail ?? ""),
      button("ex-link", "Why", () => this.#context.reason(broke.why.code)), ...onwards,
    );
  }

  #stateTables(compile: CompileData, state: State): HTMLElement {
    const graph = compile.stages?.find(each => each.name === "capture")?.graph;
    const nodes = graph?.nodes.filter(node => node.op !== "placeholder" && (compile.made?.[node.id] ?? this.#step) < this.#step) ?? [];
    const stack = state.stack.map((value, n) => h("li", { class: n >= state.stack.length - state.freshStack ? "ex-fresh" : "" }, value[0])).reverse();
    const locals = [...state.locals].map(([name, value]) =>
      h("tr", { class: state.freshLocals.has(name) ? "ex-fresh" : "" }, h("td", name), h("td", value[0])));
    const grown = nodes.map(node => {
      const what = key(compile.id, node.id);
      return h("li", button("ex-link", node.name, () => this.#context.show("graphs", what)), ` = ${node.target}  ${node.type}`);
    });
    return h(
      "div.ex-state",
      h("section", h("h2", `Stack (${state.stack.length}, top first)`), h("ol.ex-values", { reversed: true }, ...stack)),
      h("section", h("h2", `Locals (${state.locals.size})`), h("table.ex-table", h("tbody", ...locals))),
      h("section", h("h2", `Graph so far (${state.nodes})`), h("ol.ex-values", { reversed: true }, ...grown.reverse())),
      h("p.ex-hint-inline", `Before the instruction, in ${state.calls.join(" › ")}${state.attempt > 1 ? `; evaluation ${state.attempt}: the one before was given up to end the graph earlier` : ""}. New values are marked •.`),
    );
  }
}
