// The evaluator's steps, replayed: the record keeps what each changed. As explorer/show/view/steps.py: moves, queries.

import { entry } from "../../gather";
import type { ActivationData, CompileData, InstructionData, StepData, ValueData } from "../../record";
import { type Facts, found } from "../../walk";

/** What the evaluator held before it ran the instruction of a step. */
export interface State {
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

interface Held {
  stack: ValueData[];
  readonly locals: Map<string, ValueData>;
}

/** The state before each step, of the function that it is in. The same objects change from step to step. */
function* replayed({ trace: steps = [], values = [] }: CompileData): Generator<Held> {
  const frames = new Map<number, Held>();
  const value = (at: number): ValueData => values[at] ?? ["?"];
  for (const [, activation, , kept = 0, pushed = [], changed = {}] of steps) {
    const held = frames.get(activation) ?? { stack: [], locals: new Map() };
    frames.set(activation, held);
    held.stack = [...held.stack.slice(0, kept), ...pushed.map(value)];
    for (const [name, bound] of Object.entries(changed)) {
      if (bound < 0) held.locals.delete(name);
      else held.locals.set(name, value(bound));
    }
    yield held;
  }
}

export function stateAt(compile: CompileData, at: number): State | undefined {
  const step = compile.trace?.[at];
  if (!step) return undefined;
  const [instruction, activation, , kept = 0, , changed = {}] = step;
  const activations = compile.activations ?? [];
  let now = -1;
  for (const { stack, locals } of replayed(compile)) {
    if (++now < at) continue;
    return {
      instruction, stack, locals, calls: callsOf(activations, activation),
      givenUp: activations.some((each, n) => n > activation && !each.depth),
      freshLocals: new Set(Object.keys(changed)), freshStack: stack.length - kept,
    };
  }
  return undefined;
}

function callsOf(activations: readonly ActivationData[], at: number): string[] {
  const { function: name, caller = -1 } = activations[at] ?? {};
  return name === undefined ? [] : [...(caller < at ? callsOf(activations, caller) : []), name];
}

function attempt(activations: readonly ActivationData[], at: number): number {
  return activations.slice(0, at + 1).filter(each => !each.depth).length;
}

/** The step nearest to `from` at which an instruction ran, those after it first; -1 where none was kept. */
export function stepOf(steps: readonly StepData[], instruction: string, from: number): number {
  const after = steps.findIndex(([id], n) => n >= from && id === instruction);
  return after >= 0 ? after : steps.findIndex(([id]) => id === instruction);
}

/** A value in words, a tensor of our graph with its type. Dynamo renames nodes later, so a name says little. */
export function said({ stages }: CompileData): (value: ValueData) => string {
  const types = new Map(stages?.find(each => each.graph)?.graph?.nodes.map(({ name, type }) => [`tensor ${name}`, `: ${type}`]));
  return ([text]) => text + (types.get(text) ?? "");
}

export function added({ stages, made = {}, guards = [], effects = [], symbols = [], breaks = [], activations = [], trace: steps = [] }: CompileData): readonly Added[] {
  const nodes = stages?.find(each => each.graph)?.graph?.nodes ?? [];
  const found: Added[] = [
    ...nodes.map(({ id, op, name, target, type }): Added =>
      [made[id] ?? -1, op === "placeholder" ? "input" : "node", `${name}${op === "placeholder" ? ":" : ` = ${target}`} ${type}`, id]),
    ...guards.map(({ step = -1, words, expression, id }): Added => [step, "guard", words || expression, id]),
    ...effects.map(({ step = -1, expression }): Added => [step, "effect", expression]),
    ...symbols.map(({ step = -1, name, source, status, why }): Added => [step, "symbol", `${name} = ${source}, ${status}: ${why}`]),
    ...breaks.map(({ step = -1, why }): Added => [step, "break", why.title]),
    ...activations.map((each, n): Added => [n && !each.depth ? steps.findIndex(step => step[1] === n) : -1, "restart", ""]),
  ];
  return found.filter(([step]) => step >= 0).sort(([a], [b]) => a - b);
}

export type Instructions = ReadonlyMap<string, InstructionData>;

/** The steps at which all terms of a query hold; what is wrong with it where it is none. */
export function find(compile: CompileData, codes: Instructions, query: string): number[] | string {
  const { trace: steps = [], activations = [] } = compile;
  const attempts = activations.map((_, n) => attempt(activations, n));
  const did = new Map<number, Added[]>();
  for (const each of added(compile)) entry(did, each[0], () => []).push(each);
  const typed = said(compile);
  const code = (at: number) => codes.get(steps[at]![0]);
  const entered = (at: number) => activations[steps[at]![1]];
  const facts: { [key: string]: Facts<Held>[string] } = {
    op: (_, at) => code(at) && `${code(at)!.op} ${code(at)!.arg}`, function: (_, at) => entered(at)?.function,
    top: held => held.stack.slice(-1).map(typed), stack: held => held.stack.map(typed),
    local: held => [...held.locals].map(([name, value]) => `${name} = ${typed(value)}`),
    step: (_, at) => at, depth: (_, at) => entered(at)?.depth ?? 0, nodes: (_, at) => steps[at]![2],
    line: (_, at) => code(at)?.span?.line, attempt: (_, at) => attempts[steps[at]![1]] ?? 1,
  };
  for (const kind of ["input", "node", "guard", "effect", "symbol", "break", "restart"]) {
    facts[kind] = (_, at) => did.get(at)?.map(([, of, text]) => of === kind && (text || kind));
  }
  return found(query, facts, replayed(compile));
}

/** Where a move by line leads, through calls ("line"), past them ("over") or out of the function ("out"); -1 for nowhere. */
export function byLine({ trace: steps = [], activations = [] }: CompileData, codes: Instructions, at: number, to: string, back: boolean): number {
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
