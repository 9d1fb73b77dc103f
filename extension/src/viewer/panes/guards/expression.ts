// Whether a relation between sizes holds, by the tree that the record gives of it, in exact and bounded arithmetic.
// Nothing in the record is run as code.

import type { ExpressionData } from "../../record";

/** Gives the number at a leaf ("size", "stride", "value"); throws Undecided where it is not known. */
type Lookup = (leaf: ExpressionData) => Exact;

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

/** Why something cannot be told. Many are thrown, so it is no Error: making the stack of each took most of the time. */
export class Undecided {
  constructor(readonly message: string) {}
}

/** The most bits that a number may have. Sizes have 64; a record that asks for more is not one that we made. */
const MOST_BITS = 4096;

/** numerator / denominator in lowest terms, the denominator positive. */
export class Exact {
  private constructor(
    readonly numerator: bigint,
    readonly denominator: bigint,
  ) {}

  static ratio(numerator: bigint, denominator: bigint): Exact {
    if (denominator === 0n) throw new Undecided("it divides by zero");
    if (denominator < 0n) return Exact.ratio(-numerator, -denominator);
    const shared = greatestDivisor(numerator < 0n ? -numerator : numerator, denominator);
    return new Exact(bounded(numerator / shared), bounded(denominator / shared));
  }

  /** The fraction that a double stands for. */
  static of(value: number): Exact {
    if (!Number.isFinite(value)) throw new Undecided(`${value} is no size`);
    let denominator = 1n;
    while (!Number.isInteger(value)) {
      value *= 2;
      denominator *= 2n;
    }
    return Exact.ratio(BigInt(value), denominator);
  }

  plus(other: Exact): Exact {
    return Exact.ratio(
      this.numerator * other.denominator + other.numerator * this.denominator,
      this.denominator * other.denominator,
    );
  }

  times(other: Exact): Exact {
    return Exact.ratio(this.numerator * other.numerator, this.denominator * other.denominator);
  }

  over(other: Exact): Exact {
    return Exact.ratio(this.numerator * other.denominator, this.denominator * other.numerator);
  }

  negated(): Exact {
    return new Exact(-this.numerator, this.denominator);
  }

  floor(): Exact {
    const quotient = this.numerator / this.denominator;
    const down = this.numerator < 0n && quotient * this.denominator !== this.numerator;
    return new Exact(down ? quotient - 1n : quotient, 1n);
  }

  ceil(): Exact {
    return this.negated().floor().negated();
  }

  power(exponent: Exact): Exact {
    const times = exponent.numerator;
    if (exponent.denominator !== 1n) throw new Undecided("it has a power that is no whole number");
    if (times < 0n) return Exact.ratio(1n, 1n).over(this.power(exponent.negated()));
    const bits = BigInt(Math.max(bitsOf(this.numerator), bitsOf(this.denominator)));
    if (bits > 1n && bits * times > MOST_BITS) throw new Undecided("it has a power that is too large");
    return bits > 1n ? Exact.ratio(this.numerator ** times, this.denominator ** times) : this.#ofUnit(times);
  }

  /** A power of 0, 1 or -1, whatever the exponent. */
  #ofUnit(times: bigint): Exact {
    if (times === 0n) return new Exact(1n, 1n);
    return times % 2n === 0n ? new Exact(this.numerator * this.numerator, 1n) : this;
  }

  /** Negative, zero or positive, as this is less than, equal to or more than `other`. */
  compare(other: Exact): number {
    const difference = this.numerator * other.denominator - other.numerator * this.denominator;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }
}

const bitsOf = (value: bigint): number => (value < 0n ? -value : value).toString(2).length;

function bounded(value: bigint): bigint {
  if (bitsOf(value) > MOST_BITS) throw new Undecided("its numbers are too large");
  return value;
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}
