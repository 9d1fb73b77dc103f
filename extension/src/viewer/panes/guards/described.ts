// Describing a value in a form: from what is typed to the record's terms, and back.

import { entry } from "../../collections";
import type { CompileData, ConstantData, GuardData, InputData, TensorFactsData } from "../../record";

/** What was typed is no such value; the message says what was expected. */
export class Mistyped extends Error {}

export const KINDS = ["tensor", "int", "float", "bool", "str", "None", "list", "tuple", "dict", "object"] as const;
export type InputKind = (typeof KINDS)[number];

export const DTYPES = [
  "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
  "complex128",
] as const;

const MOST_DIMS = 64;

/** "4, 8" (or "(4, 8)", "4 x 8"; "" for a number alone) as sizes. */
export function parseSizes(text: string): number[] {
  const inner = text.trim().replace(/^[([]|[)\]]$/g, "").trim();
  if (inner === "") return [];
  const parts = inner.includes(",")
    ? inner.replace(/,$/, "").split(",").map(part => part.trim())
    : inner.split(/[x×]/).flatMap(part => part.trim().split(/\s+/));
  if (parts.length > MOST_DIMS) throw new Mistyped(`expected at most ${MOST_DIMS} dimensions`);
  return parts.map(part => {
    const size = /^\d+$/.test(part) ? Number(part) : NaN;
    if (!Number.isSafeInteger(size)) throw new Mistyped(`expected whole numbers with commas between, not “${part}”`);
    return size;
  });
}

export const writtenSizes = (sizes: readonly (number | null)[]): string => sizes.map(size => size ?? "*").join(", ");

/** The strides of a contiguous tensor. */
export function contiguous(sizes: readonly (number | null)[]): number[] {
  const strides: number[] = [];
  let step = 1;
  for (const size of [...sizes].reverse()) {
    strides.unshift(step);
    step *= Math.max(size ?? 1, 1);
  }
  return strides;
}

export function isContiguous(facts: TensorFactsData): boolean {
  const dense = contiguous(facts.sizes);
  return !!facts.strides && facts.strides.every((stride, dim) => facts.sizes[dim] === 1 || stride === dense[dim]);
}

/** The same tensor with other sizes: contiguous where it was, or where it has another rank. */
export function resized(facts: TensorFactsData, sizes: readonly number[]): TensorFactsData {
  const keep = facts.strides && sizes.length === facts.sizes.length && !isContiguous(facts);
  return { ...facts, sizes, strides: keep ? facts.strides : facts.strides === null ? null : contiguous(sizes) };
}

export function kindOf(input: InputData): InputKind {
  switch (input.kind) {
    case "number": return input.constant?.type === "float" ? "float" : "int";
    case "none": return "None";
    default: return (KINDS as readonly string[]).includes(input.kind) ? (input.kind as InputKind) : "object";
  }
}

/** A value of another kind in the same place, as a start. */
export function ofKind(input: InputData, kind: InputKind): InputData {
  const place = { source: input.source, kind: recordKind(kind), role: input.role, name: input.name };
  switch (kind) {
    case "tensor": return { ...place,
      tensor: input.tensor ?? { dtype: "float32", device: "cpu", sizes: [1], strides: [1] } };
    case "int": return { ...place, constant: parseConstant("int", "0") };
    case "float": return { ...place, constant: parseConstant("float", "0.0") };
    case "bool": return { ...place, constant: parseConstant("bool", "False") };
    case "str": return { ...place, constant: parseConstant("str", "") };
    case "None": return { ...place, constant: { type: "NoneType", text: "None", value: null } };
    case "list": case "tuple": return { ...place, length: input.length ?? 0 };
    case "dict": return { ...place, keys: input.keys ?? [] };
    case "object": return { ...place, type: input.type || "builtins.object" };
  }
}

function recordKind(kind: InputKind): string {
  return kind === "int" || kind === "float" ? "number" : kind === "None" ? "none" : kind;
}

export function parseConstant(kind: "int" | "float" | "bool" | "str", typed: string): ConstantData {
  const text = typed.trim();
  switch (kind) {
    case "int": {
      if (!/^[-+]?\d{1,300}$/.test(text)) throw new Mistyped(`expected a whole number, not “${typed}”`);
      const exact = BigInt(text);
      const value = Number(exact);
      return { type: "int", text: String(exact), value: Number.isSafeInteger(value) ? value : null };
    }
    case "float": {
      if (/^[-+]?(inf|nan)$/i.test(text))
        return { type: "float", text: text.toLowerCase().replace("+", "").replace("-nan", "nan"), value: null };
      const value = text === "" ? NaN : Number(text);
      if (!Number.isFinite(value)) throw new Mistyped(`expected a number, inf or nan, not “${typed}”`);
      return { type: "float", text: Number.isInteger(value) && Math.abs(value) < 1e16 ? `${value}.0` : String(value),
        value };
    }
    case "bool": return { type: "bool", text, value: text === "True" };
    case "str": return { type: "str", text: `'${typed.replace(/\\/g, "\\\\").replace(/'/g, "\\'")}'`, value: typed };
  }
}

/** What the guards on one source say of the value that it had, where the record has no description of it. */
export function fromGuards(source: string, guards: readonly GuardData[]): InputData | null {
  const place = { source, role: "reached" };
  const of = (property: string) => guards.find(each => each.property === property);
  const type = of("type")?.type ?? "";
  const tensor = of("tensor")?.tensor;
  if (tensor) return tensor.sizes.includes(null) || tensor.strides?.includes(null)
    ? null : { ...place, kind: "tensor", tensor, type: tensor.type };
  const constant = of("constant")?.constant ?? (of("id")?.relation === "is" ? of("id")?.constant : null);
  if (constant) return { ...place, ...constantKind(constant), constant, type: type || `builtins.${constant.type}` };
  const keys = of("keys")?.keys;
  if (keys) return { ...place, kind: "dict", keys, length: keys.length, type: type || "builtins.dict" };
  const empty = of("empty");
  const length = of("length")?.length ?? (empty?.length === 0 ? 0 : null);
  const kind = CONTAINERS[type];
  return type ? { ...place, kind: kind ?? "object", type, length: kind ? length : null } : null;
}

const CONTAINERS: { readonly [type: string]: string } =
  { "builtins.list": "list", "builtins.tuple": "tuple", "builtins.dict": "dict" };

/** Every value that a compile's guards ask about, as it was at capture: the frame's inputs, then what only guards
 * tell. */
export function seenBy(compile: CompileData): Map<string, InputData> {
  const found = new Map((compile.inputs ?? []).map(each => [each.source, each]));
  const guards = new Map<string, GuardData[]>();
  for (const each of compile.guards ?? []) entry(guards, each.source, () => []).push(each);
  for (const [source, own] of guards) {
    const described = found.has(source) || !source ? null : fromGuards(source, own);
    if (described) found.set(source, described);
  }
  return found;
}

function constantKind(constant: ConstantData): { kind: string } {
  const kinds: { readonly [type: string]: string } =
    { int: "number", float: "number", bool: "bool", str: "str", NoneType: "none" };
  return { kind: kinds[constant.type] ?? "object" };
}
