// Whether a relation between sizes holds, by the tree that the record gives of it. Nothing in the record is run as
// code.

import type { ExpressionData } from "../../record";
import { Exact, Undecided } from "./exact";

/** Gives the number at a leaf ("size", "stride", "value"); throws Undecided where it is not known. */
export type Lookup = (leaf: ExpressionData) => Exact;

type Value = Exact | boolean;

const DEEPEST = 200;
const MOST_STEPS = 20_000;

/** Whether `expression` holds. Throws Undecided with the reason where that cannot be told. */
export function holds(expression: ExpressionData, lookup: Lookup): boolean {
  let steps = 0;

  const evaluate = (of: ExpressionData, depth: number): Value => {
    if (depth > DEEPEST) throw new Undecided("it is nested too deep");
    if (++steps > MOST_STEPS) throw new Undecided("it is too long");
    const given = of.arguments ?? [];
    const argument = (at: number): ExpressionData => {
      const found = given[at];
      if (!found) throw new Undecided(`“${of.op}” lacks an operand`);
      return found;
    };
    const number = (at: number) => asNumber(evaluate(argument(at), depth + 1));
    const truth = (at: number) => asTruth(evaluate(argument(at), depth + 1));
    const numbers = (least: number) => Array.from({ length: Math.max(least, given.length) }, (_, at) => number(at));
    switch (of.op) {
      case "number": return Exact.of(of.value ?? 0);
      case "size": case "stride": case "value": return lookup(of);
      case "+": return numbers(2).reduce((sum, each) => sum.plus(each));
      case "*": return numbers(2).reduce((product, each) => product.times(each));
      case "-": return number(0).negated();
      case "/": return number(0).over(number(1));
      case "//": return number(0).over(number(1)).floor();
      case "%": {
        const [a, b] = [number(0), number(1)];
        return a.plus(a.over(b).floor().times(b).negated());
      }
      case "**": return number(0).power(number(1));
      case "min": return numbers(1).reduce((least, each) => (each.compare(least) < 0 ? each : least));
      case "max": return numbers(1).reduce((most, each) => (each.compare(most) > 0 ? each : most));
      case "abs": {
        const a = number(0);
        return a.numerator < 0n ? a.negated() : a;
      }
      case "floor": return number(0).floor();
      case "ceil": return number(0).ceil();
      case "<": return number(0).compare(number(1)) < 0;
      case "<=": return number(0).compare(number(1)) <= 0;
      case ">": return number(0).compare(number(1)) > 0;
      case ">=": return number(0).compare(number(1)) >= 0;
      case "==": return number(0).compare(number(1)) === 0;
      case "!=": return number(0).compare(number(1)) !== 0;
      case "not": return !truth(0);
      case "and": return anyOrAll(given.map((_, at) => () => truth(at)), false);
      case "or": return anyOrAll(given.map((_, at) => () => truth(at)), true);
      case "if": return evaluate(argument(truth(0) ? 1 : 2), depth + 1);
      case "?": throw new Undecided(`this page cannot compute ${of.text || "a part of it"}`);
      default: throw new Undecided(`this page does not know the operator “${of.op}”`);
    }
  };

  return asTruth(evaluate(expression, 0));
}

/** "or" (`by` true) or "and" (`by` false): one part may settle it although another cannot be told. */
function anyOrAll(parts: readonly (() => boolean)[], by: boolean): boolean {
  let unknown: Undecided | null = null;
  for (const part of parts) {
    try {
      if (part() === by) return by;
    } catch (error) {
      if (!(error instanceof Undecided)) throw error;
      unknown = error;
    }
  }
  if (unknown) throw unknown;
  return !by;
}

function asNumber(value: Value): Exact {
  if (value instanceof Exact) return value;
  throw new Undecided("it computes with a truth value");
}

function asTruth(value: Value): boolean {
  if (typeof value === "boolean") return value;
  throw new Undecided("it is a number, not a relation");
}

/** The leaves of an expression that name an input, each once, in order. */
export function leaves(expression: ExpressionData): ExpressionData[] {
  const found = new Map<string, ExpressionData>();
  const pending: ExpressionData[] = [expression];
  for (let steps = 0; pending.length > 0 && steps < MOST_STEPS; steps++) {
    const of = pending.pop() as ExpressionData;
    if (of.op === "size" || of.op === "stride" || of.op === "value") found.set(leafName(of), of);
    pending.push(...[...(of.arguments ?? [])].reverse());
  }
  return [...found.values()];
}

/** What a leaf is called: L['x'].size(0). */
export function leafName(leaf: ExpressionData): string {
  return leaf.op === "value" ? (leaf.source ?? "") : `${leaf.source ?? ""}.${leaf.op}(${leaf.value ?? 0})`;
}
