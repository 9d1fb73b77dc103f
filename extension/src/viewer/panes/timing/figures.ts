// Numbers about samples, and how to write them.

import { seconds } from "../../format";
import { least, most } from "../../collections";
import type { SamplesData } from "../../record";

/** The three quartiles, as Python's statistics.quantiles(values, n=4, method="inclusive") gives them. */
export function quartiles(values: readonly number[]): readonly [low: number, median: number, high: number] {
  const sorted = [...values].sort((a, b) => a - b);
  const cut = (quarter: number) => {
    const steps = quarter * (sorted.length - 1);
    const [at, over] = [Math.floor(steps / 4), steps % 4];
    return over ? (sorted[at]! * (4 - over) + sorted[at + 1]! * over) / 4 : sorted[at] ?? NaN;
  };
  return [cut(1), cut(2), cut(3)];
}

/** "24.2 us (23.6 us to 26.2 us)": the median, and the quartiles where there are samples. */
export function withQuartiles({ median, samples }: Pick<SamplesData, "median" | "samples">): string {
  const [low, , high] = quartiles(samples.filter(each => each > 0));
  return seconds(median) + (low < high ? ` (${seconds(low)} to ${seconds(high)})` : "");
}

/** An error: two digits, by powers of ten where it is small. */
export function writtenError(value: number): string {
  return value === 0 ? "0" : Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toPrecision(2);
}

/** Calls after which a compile has paid for itself; null where a call is not clearly quicker than eager's. */
export function paysOffAfter({ compile_seconds: compile, median: own, speed }: SamplesData,
    eager: SamplesData): number | null {
  return typeof compile === "number" && (speed?.low ?? 0) > 1 && eager.median > own
    ? Math.ceil(compile / (eager.median - own)) : null;
}

/** Dots in columns: each sample in the column of its place, above those that are there already. */
export function stacked(values: readonly number[], place: (value: number) => number,
    column: number): { x: number; level: number }[] {
  const height = new Map<number, number>();
  return values.map(value => {
    const at = Math.round(place(value) / column);
    const level = height.get(at) ?? 0;
    height.set(at, level + 1);
    return { x: at * column, level };
  });
}

/** Whether samples lie so far apart that only a logarithmic axis shows them all. */
export function spanMagnitudes(values: readonly number[]): boolean {
  const positive = values.filter(each => each > 0);
  return positive.length > 1 && most(positive) > 20 * least(positive);
}
