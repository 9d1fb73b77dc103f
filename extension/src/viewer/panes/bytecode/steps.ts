// The evaluator's steps, replayed: the record keeps what each changed. As explorer/show/view/steps.py: moves, queries.

import { entry } from "../../collections";
import type { ActivationData, CompileData, InstructionData, NodeData, StepData, ValueData } from "../../record";
import type { FileNames } from "../../sources";
import { type StepFacts, found } from "../../walk";

/** What the evaluator held before it ran the instruction of a step. */
export interface EvaluatorState {
  readonly instruction: string;
  /** The functions entered, the root first. */
  readonly calls: readonly string[];
  /** The values on the stack, the top last. */
  readonly stack: readonly ValueData[];
  readonly locals: ReadonlyMap<string, ValueData>;
  /** Values that were not there, or other, before the step that led here. */
  readonly freshLocals: ReadonlySet<string>;
  readonly freshStack: number;
  /** Whether this evaluation was given up, to end the graph earlier in another. */
  readonly givenUp: boolean;
}

/** What a step added to what the capture makes; `id` is the element's. */
export type Added = readonly [step: number, kind: string, text: string, id?: string];

interface FrameContents {
  readonly stack: ValueData[];
  readonly locals: Map<string, ValueData>;
}

/** The state before each step, of the function that it is in. The same objects change from step to step. */
function* replayed({ trace: steps = [], values = [] }: CompileData): Generator<FrameContents> {
  const frames = new Map<number, FrameContents>();
  const value = (at: number): ValueData => values[at] ?? ["?"];
  for (const [, activation, , kept = 0, pushed = [], changed = {}] of steps) {
    const state = entry(frames, activation, (): FrameContents => ({ stack: [], locals: new Map() }));
    state.stack.splice(kept);
    for (const each of pushed) state.stack.push(value(each));
    for (const [name, bound] of Object.entries(changed)) {
      if (bound < 0) state.locals.delete(name);
      else state.locals.set(name, value(bound));
    }
    yield state;
  }
}

export function stateAt(compile: CompileData, at: number): EvaluatorState | undefined {
  const step = compile.trace?.[at];
  if (!step) return undefined;
  const [instruction, activation, , kept = 0, , changed = {}] = step;
  const activations = compile.activations ?? [];
  let left = at;
  for (const { stack, locals } of replayed(compile)) {
    if (left--) continue;
    return {
      instruction, stack, locals, calls: callsOf(activations, activation),
      givenUp: activations.some((each, n) => n > activation && !each.depth),
      freshLocals: new Set(Object.keys(changed)), freshStack: stack.length - kept,
    };
  }
  return undefined;
}

/** A caller comes before what it calls. */
function callsOf(activations: readonly ActivationData[], at: number): string[] {
  const calls: string[] = [];
  for (let each; (each = activations[at]); at = Math.min(each.caller ?? -1, at - 1)) calls.push(each.function);
  return calls.reverse();
}

/** The step nearest to `from` at which an instruction ran, those after it first; -1 where none was kept. */
export function stepOf(steps: readonly StepData[], instruction: string, from: number): number {
  const after = steps.findIndex(([id], n) => n >= from && id === instruction);
  return after >= 0 ? after : steps.findIndex(([id]) => id === instruction);
}

/** Nodes of the captured graph. */
const captured = ({ stages }: CompileData): readonly NodeData[] => stages?.find(each => each.graph)?.graph?.nodes ?? [];

/** A value in words, a tensor of our graph with its type. Dynamo renames nodes later, so a name says little. */
export function valueText(compile: CompileData): (value: ValueData) => string {
  const sources = new Map(compile.inputs?.map(({ name, source }) => [name, ` of ${source}`]));
  const types =
    new Map(captured(compile).map(({ name, type }) => [`tensor ${name}`, `: ${type}${sources.get(name) ?? ""}`]));
  return ([text]) => text + (types.get(text) ?? "");
}

export function added(compile: CompileData): readonly Added[] {
  const { made = {}, guards = [], effects = [], symbols = [], breaks = [], activations = [], trace: steps = [] } =
    compile;
  const first = new Map(steps.map((step, at) => [step[1], at] as const).reverse());
  const found: Added[] = [
    ...captured(compile).map(({ id, op, name, target, type }): Added => (
      op === "placeholder" ? [made[id] ?? -1, "input", `${name}: ${type}`, id]
        : [made[id] ?? -1, "node", `${name} = ${target} ${type}`, id])),
    ...guards.map(({ step = -1, words, expression, id }): Added => [step, "guard", words || expression, id]),
    ...effects.map(({ step = -1, expression }): Added => [step, "effect", expression]),
    ...symbols.map(
      ({ step = -1, name, source, status, why }): Added => [step, "symbol", `${name} = ${source}, ${status}: ${why}`]),
    ...breaks.map(({ step = -1, why }): Added => [step, "break", why.title]),
    ...activations.map((each, n): Added => [each.depth || !n ? -1 : first.get(n)!, "restart", ""]),
  ];
  return found.filter(([step]) => step >= 0).sort(([a], [b]) => a - b);
}

/** The steps of each kind of thing that happens, and those inside inlined functions. */
export function marks({ trace: steps = [], activations = [], breaks = [] }: CompileData,
    added: readonly Added[]): { readonly [kind: string]: readonly number[] } {
  const found: { [kind: string]: number[] } =
    { inlined: steps.flatMap(([, activation], n) => (activations[activation]?.depth ? [n] : [])) };
  const onward = breaks.flatMap(
    ({ step = -1, continuation }): Added[] => (continuation ? [[step, "continuation", continuation]] : []));
  for (const kind of ["node", "guard", "effect", "symbol", "continuation", "break", "restart"]) {
    const made = [...added, ...onward].flatMap(([step, of]) => (of === kind && steps[step] ? [step] : []));
    found[kind] = [...new Set(made)];
  }
  return found;
}

export type Instructions = ReadonlyMap<string, InstructionData>;

export function instructions({ codes = [] }: CompileData): Instructions {
  return new Map(codes.flatMap(code => code.instructions.map(each => [each.id, each] as const)));
}

/** Where each step is, wherever its function stands: the function, the line in it, and the opcode. */
function places(compile: CompileData): readonly (readonly [function: string, line: string, op: string])[] {
  const codes = instructions(compile);
  const firsts = new Map(compile.codes?.map(({ name, line }) => [name, line]));
  return (compile.trace ?? []).map(([id, activation]) => {
    const name = compile.activations?.[activation]?.function ?? "";
    const { op = "", span } = codes.get(id) ?? {};
    return [name, span ? ` line ${span.line - (firsts.get(name) ?? 0) + 1}` : "", op];
  });
}

/** The step of a later capture that a step of an earlier one is, by function, line and opcode; where it went, one
 * before it. */
export function aligned(before: CompileData, at: number, after: CompileData): number {
  const times = new Map<string, number[]>();
  places(after).forEach((place, n) => entry(times, place.join(), () => []).push(n));
  const passed = new Map<string, number>();
  let found = -1;
  for (const place of places(before).slice(0, at + 1)) {
    const name = place.join();
    const turn = passed.get(name) ?? 0;
    passed.set(name, turn + 1);
    found = times.get(name)?.[turn] ?? found;
  }
  return found;
}

/** What a capture adds that another does not: "− " before what only the first has, "+ " before what only the second
 * has. As Steps.diff of explorer/show/view/steps.py. */
export function stepChanges(before: CompileData, after: CompileData): string[] {
  const left = new Map<string, number>();
  for (const [compile, by] of [[before, -1], [after, 1]] as const) {
    const at = places(compile);
    for (const [step, kind, text] of added(compile)) {
      const label = `${kind} in ${at[step]?.slice(0, 2).join("")}: ${text}`;
      if (text) left.set(label, (left.get(label) ?? 0) + by);
    }
  }
  return [...left].flatMap(([said, many]) => Array<string>(Math.abs(many)).fill(`${many < 0 ? "−" : "+"} ${said}`))
    .sort((a, b) => (a.slice(2) < b.slice(2) ? -1 : 1));
}

/** The steps at which all terms of a query hold; what is wrong with it where it is none. */
export function find(compile: CompileData, codes: Instructions, files: FileNames, query: string): number[] | string {
  const { trace: steps = [], activations = [] } = compile;
  let begun = 0;
  const attempts = activations.map(each => (begun += each.depth ? 0 : 1));
  const did = new Map<number, Added[]>();
  for (const each of added(compile)) entry(did, each[0], () => []).push(each);
  const typed = valueText(compile);
  const code = (at: number) => codes.get(steps[at]![0]);
  const entered = (at: number) => activations[steps[at]![1]];
  const facts: { [key: string]: StepFacts<FrameContents>[string] } = {
    op: (_, at) => code(at) && `${code(at)!.op} ${code(at)!.arg}`, function: (_, at) => entered(at)?.function,
    top: held => held.stack.slice(-1).map(typed), stack: held => held.stack.map(typed),
    local: held => [...held.locals].map(([name, value]) => `${name} = ${typed(value)}`),
    step: (_, at) => at, depth: (_, at) => entered(at)?.depth ?? 0, nodes: (_, at) => steps[at]![2],
    line: (_, at) => code(at)?.span?.line, at: (_, at) => { const span = code(at)?.span;
    return span && files.place(span.file, span.line); }, attempt: (_, at) => attempts[steps[at]![1]] ?? 1,
  };
  for (const kind of ["input", "node", "guard", "effect", "symbol", "break", "restart"]) {
    facts[kind] = (_, at) => did.get(at)?.map(([, of, text]) => of === kind && (text || kind));
  }
  return found(query, facts, replayed(compile));
}

/** Where a move by line leads, through calls ("line"), past them ("over") or out of the function ("out"); -1 for
 * nowhere. */
export function byLine({ trace: steps = [], activations = [] }: CompileData, codes: Instructions, at: number,
    to: string, back: boolean): number {
  const depth = (n: number) => activations[steps[n]![1]]?.depth ?? 0;
  const place = (n: number) => {
    const [id, activation] = steps[n]!;
    const span = codes.get(id)?.span;
    return span ? `${activation} ${span.file}:${span.line}` : "";
  };
  const deepest = to === "line" ? Infinity : depth(at) - (to === "out" ? 1 : 0);
  const here = to === "out" ? "" : place(at);
  const sign = back ? -1 : 1;
  const next = (from: number, fits: (place: string) => boolean): number => {
    for (let n = from + sign; steps[n]; n += sign) if (depth(n) <= deepest && place(n) && fits(place(n))) return n;
    return -1;
  };
  let found = next(at, there => there !== here);
  if (back && to !== "out" && found >= 0) {
    const line = place(found);
    for (let n = found; n >= 0; n = next(n, () => true)) {
      if (place(n) !== line) break;
      found = n;
    }
  }
  return found;
}
