// The evaluator's steps, replayed: the record keeps what each changed.

import type { ActivationData, CompileData, StepData, ValueData } from "../../record";

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
  /** How many nodes of the captured graph, beside its placeholders, there were. */
  readonly nodes: number;
  /** Which evaluation this is, from 1: a second one means that the first was given up to end the graph earlier. */
  readonly attempt: number;
}

export function stateAt(compile: CompileData, at: number): State | undefined {
  const steps = compile.steps ?? [];
  const activations = compile.activations ?? [];
  const value = (at: number): ValueData => compile.values?.[at] ?? ["?"];
  const step = steps[at];
  if (!step) return undefined;
  const [instruction, activation, nodes, kept = 0, , changed = {}] = step;
  let stack: readonly ValueData[] = [];
  const locals = new Map<string, ValueData>();
  for (const each of steps.slice(0, at + 1)) {
    if (each[1] !== activation) continue;
    stack = [...stack.slice(0, each[3] ?? 0), ...(each[4] ?? []).map(value)];
    for (const [name, bound] of Object.entries(each[5] ?? {})) {
      if (bound < 0) locals.delete(name);
      else locals.set(name, value(bound));
    }
  }
  return {
    instruction, calls: callsOf(activations, activation), stack, locals, nodes,
    freshLocals: new Set(Object.keys(changed)), freshStack: stack.length - kept, attempt: attempt(activations, activation),
  };
}

function callsOf(activations: readonly ActivationData[], at: number): string[] {
  const entered = activations[at];
  if (!entered) return [];
  const caller = entered.caller ?? -1;
  return caller >= 0 && caller < at ? [...callsOf(activations, caller), entered.function] : [entered.function];
}

function attempt(activations: readonly ActivationData[], at: number): number {
  return activations.slice(0, at + 1).filter(each => (each.depth ?? 0) === 0).length;
}

/** The step nearest to `from` at which an instruction ran, those after it first; -1 where none was kept. */
export function stepOf(steps: readonly StepData[], instruction: string, from: number): number {
  const after = steps.findIndex(([id], n) => n >= from && id === instruction);
  return after >= 0 ? after : steps.findIndex(([id]) => id === instruction);
}
