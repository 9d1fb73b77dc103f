// Exact arithmetic on fractions, bounded: what would grow without end is refused.

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
