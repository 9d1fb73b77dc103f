// Which guards a described call breaks, without a tensor and without running anything. All that fail are found, where
// the compiled check stops at the first. tests/test_guard_decisions.py compares it with the real checks.

import type { ConstantData, ExpressionData, GlobalStateData, GuardData, InputData, TensorFactsData } from
  "../../record";
import { Exact, Undecided, holds, leafName, leaves } from "./expression";

/** A call that was not made: its inputs by source, and the global state around it. */
export interface Call {
  readonly inputs: ReadonlyMap<string, InputData>;
  readonly state: GlobalStateData | null;
}

export type Outcome = "holds" | "fails" | "undecided";

export interface Decision {
  readonly guard: GuardData;
  readonly outcome: Outcome;
  /** How it fails, a phrase for each difference; or why it is not decided here. */
  readonly how: readonly string[];
}

export function decide(guards: readonly GuardData[], call: Call): Decision[] {
  return guards.map(guard => {
    try {
      const how = differences(guard, call);
      return { guard, outcome: how.length > 0 ? "fails" : "holds", how };
    } catch (error) {
      if (error instanceof Undecided) return { guard, outcome: "undecided", how: [error.message] };
      throw error;
    }
  });
}

const IDENTITY = "object identity is known only in the running process";

/** How the call breaks the guard: nothing where it does not. Throws Undecided where that cannot be told. */
function differences(guard: GuardData, call: Call): string[] {
  switch (guard.property) {
    case "shape": return ofShape(guard, call);
    case "global_state": return ofState(guard, call);
    case "alias": return ofIdentities(guard, call);
    case "code": throw new Undecided("a function's code is known only in the running process");
  }
  const given = call.inputs.get(guard.source);
  if (!given) throw new Undecided("the record does not hold this value");
  switch (guard.property) {
    case "tensor": return given.tensor
      ? ofTensor(needed(guard.tensor), given.tensor) : [`is ${called(given)}, expected a tensor`];
    case "type": return ofType(needed(guard.type), given);
    case "constant": case "value": return ofConstant(guard, given);
    case "id": return ofIdentity(guard, given);
    case "length": return ofLength(needed(guard.length), given);
    case "empty": return ofEmptiness(needed(guard.length) === 0, given);
    case "keys": return ofKeys(needed(guard.keys), given);
    case "has": return ofPresence(guard, given);
    default: throw new Undecided("only the running program can check a guard of this kind");
  }
}

function needed<T>(data: T | null | undefined): T {
  if (data === null || data === undefined) throw new Undecided("the record does not say what was expected");
  return data;
}

function ofTensor(expected: TensorFactsData, given: TensorFactsData): string[] {
  const found = different([
    ["dtype", given.dtype, expected.dtype],
    ["device", given.device, expected.device],
    ["requires_grad", given.requires_grad ?? false, expected.requires_grad ?? false],
    ["type", given.type ?? "torch.Tensor", expected.type ?? "torch.Tensor"],
    ["rank", given.sizes.length, expected.sizes.length],
  ]);
  const { sizes, strides } = given;
  if (sizes.length !== expected.sizes.length) return found;
  found.push(
    ...different(expected.sizes.map((size, dim) => [`size(${dim})`, size === null ? null : sizes[dim], size])));
  if (found.length > 0 || !expected.strides || !strides) return found;
  // A stride along a dimension of size 1 is never walked.
  const walked = (stride: number | null, dim: number) => stride !== null && sizes[dim] !== 1;
  return different(
    expected.strides.map((stride, dim) => [`stride(${dim})`, walked(stride, dim) ? strides[dim] : stride, stride]));
}

/** Facts whose values differ, as phrases. */
const different = (facts: readonly (readonly [what: string, theirs: unknown, ours: unknown])[]): string[] =>
  facts.flatMap(
    ([what, theirs, ours]) => (theirs === ours ? [] : [`${what} is ${written(theirs)}, expected ${written(ours)}`]));

const written = (value: unknown): string => (value === true ? "True" : value === false ? "False" : String(value));

function ofType(expected: string, given: InputData): string[] {
  const type = typeOf(given);
  return type === expected ? [] : [`is of type ${type}, expected ${expected}`];
}

function ofConstant({ constant: expected }: GuardData, given: InputData): string[] {
  if (!expected) throw new Undecided("it is a check in Python");
  if (!given.constant) return [`is ${called(given)}, expected ${expected.text}`];
  return same(given.constant, expected) ? [] : [`is ${given.constant.text}, expected ${expected.text}`];
}

/** Objects that there is one of: a description that gives one tells which object it is. */
const SINGLE = new Set(["NoneType", "bool"]);

function ofIdentity(guard: GuardData, given: InputData): string[] {
  const wanted = guard.constant && SINGLE.has(guard.constant.type) ? guard.constant : null;
  const is = given.constant && SINGLE.has(given.constant.type) ? given.constant : null;
  if (!wanted && !is) throw new Undecided(IDENTITY);
  if (wanted && is && same(wanted, is)) return [];
  return [`is ${called(given)}, expected ${guard.constant?.text ?? guard.value}`];
}

function ofLength(expected: number, given: InputData): string[] {
  const length = needed(lengthOf(given));
  return length === expected ? [] : [`length is ${length}, expected ${expected}`];
}

function ofEmptiness(empty: boolean, given: InputData): string[] {
  const length = needed(lengthOf(given));
  return (length === 0) === empty ? [] : [length === 0 ? "is empty" : "is not empty"];
}

function ofKeys(expected: readonly ConstantData[], given: InputData): string[] {
  if (!given.keys) throw new Undecided("the record does not hold its keys");
  const keys = given.keys;
  const equal = keys.length === expected.length && keys.every((each, n) => same(each, expected[n] as ConstantData));
  return equal ? [] : [`keys are ${listed(keys)}, expected ${listed(expected)}`];
}

function ofPresence(guard: GuardData, given: InputData): string[] {
  const wanted = needed(guard.keys)[0];
  if (!given.keys || !wanted || !guard.relation.endsWith("key"))
    throw new Undecided("the record does not hold its keys or attributes");
  const present = given.keys.some(each => same(each, wanted));
  if (present === guard.relation.startsWith("has")) return [];
  return [present ? `has the key ${wanted.text}` : `lacks the key ${wanted.text}`];
}

/** Whether tensors or objects are one: by what the descriptions say is the same object as another. */
function ofIdentities(guard: GuardData, call: Call): string[] {
  const sources = guard.relation === "is" ? [guard.source, ...(guard.others ?? [])] : (guard.others ?? []);
  const objects = sources.map(source => {
    const given = call.inputs.get(source);
    if (!given) throw new Undecided(`${source} is not described`);
    return given.same_as || source;
  });
  if (guard.relation === "is") return objects[0] === objects[1] ? [] : [`is not ${sources[1] ?? ""}`];
  return sources.flatMap((source, n) => {
    const before = objects.indexOf(objects[n] as string);
    return before < n ? [`${source} is ${sources[before]}`] : [];
  });
}

function ofShape(guard: GuardData, call: Call): string[] {
  const expression = needed(guard.shape);
  const lookup = (leaf: { op: string; value?: number; source?: string }): Exact => {
    const input = call.inputs.get(leaf.source ?? "");
    const found = measured(leaf, input);
    if (found === null || found === undefined) throw new Undecided(`${leafName(leaf)} is not described`);
    return Exact.of(found);
  };
  if (holds(expression, lookup)) return [];
  const known = (leaf: ExpressionData) => measured(leaf, call.inputs.get(leaf.source ?? "")) ?? "?";
  return [`with ${leaves(expression).map(leaf => `${leafName(leaf)} = ${known(leaf)}`).join(", ")}`];
}

function measured(leaf: { op: string; value?: number; source?: string },
    input: InputData | undefined): number | null | undefined {
  const dim = leaf.value ?? 0;
  switch (leaf.op) {
    case "size": return input?.tensor?.sizes[dim];
    case "stride": return input?.tensor?.strides?.[dim];
    default: return typeof input?.constant?.value === "number" ? input.constant.value : null;
  }
}

function ofState(guard: GuardData, call: Call): string[] {
  const expected = needed(guard.state);
  const given = call.state;
  if (!given) throw new Undecided("the global state is not described");
  const facts = ({ grad_enabled, autocast, default_dtype, deterministic, devices, threads }: GlobalStateData) => ({
    "grad mode": on(grad_enabled),
    autocast: [...(autocast ?? [])].sort().join(", ") || "off",
    "default dtype": default_dtype ?? "float32",
    "deterministic mode": on(deterministic ?? false),
    "default device": (devices ?? []).join(", ") || "none",
    "number of threads": threads ?? 1,
  });
  const ours = Object.values(facts(expected));
  return different(Object.entries(facts(given)).map(([what, theirs], at) => [what, theirs, ours[at]]));
}

const on = (is: boolean): string => (is ? "on" : "off");

/** Two constants are the same if type and value are; where JSON has no value for them, by their text. */
export function same(one: ConstantData, other: ConstantData): boolean {
  const value = one.value ?? null;
  return one.type === other.type && value === (other.value ?? null) && (value !== null || one.text === other.text);
}

function lengthOf(given: InputData): number | null | undefined {
  if (given.constant?.type === "str" && typeof given.constant.value === "string")
    return [...given.constant.value].length;
  return given.length ?? given.keys?.length;
}

/** The qualified name of the class of a described value, as the record writes it. */
function typeOf(given: InputData): string {
  return given.type || given.tensor?.type
    || (given.tensor ? "torch.Tensor" : `builtins.${given.constant?.type ?? given.kind}`);
}

function called(given: InputData): string {
  return given.constant ? given.constant.text : given.kind === "object" ? `a ${given.type}` : `a ${given.kind}`;
}

const listed = (keys: readonly ConstantData[]): string => `(${keys.map(each => each.text).join(", ")})`;
