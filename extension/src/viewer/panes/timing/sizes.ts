// The sizes that a new timing run is to use: one slider for each dimension, and those that were equal move together.

import type { SizedArgument } from "../../protocol";
import { Signal } from "../../signal";
import type { Shapes } from "./runs";

export interface Dim {
  readonly argument: string;
  readonly dim: number;
}

const MOST = 2 ** 24;

export function Sizes(args: readonly SizedArgument[]) {
  /** Sizes that were equal at first, and more than 1, keep being equal: most programs ask for it. */
  const tied = new Signal(true);
  const original = (): Shapes => Object.fromEntries(args.map(each => [each.name, each.shape]));
  const reset = () => (shapes.value = original());
  const originally = (which: Dim): number => args.find(each => each.name === which.argument)?.shape[which.dim] ?? 1;
  const shapes = new Signal(original());

  function set(which: Dim, size: number): void {
    const wanted = Math.min(Math.max(Math.round(size), 1), MOST);
    if (!Number.isFinite(wanted)) return;
    const original = originally(which);
    const moves = (argument: SizedArgument, dim: number) =>
      (argument.name === which.argument && dim === which.dim)
      || (tied.value && original > 1 && argument.shape[dim] === original);
    shapes.value = Object.fromEntries(args.map(argument => {
      const now = shapes.value[argument.name] ?? argument.shape;
      return [argument.name, now.map((old, dim) => (moves(argument, dim) ? wanted : old))];
    }));
  }

  /** Bytes of all arguments at these sizes. */
  function bytes(): number {
    return args.reduce(
      (sum, each) => sum + bytesOf(each.dtype) * (shapes.value[each.name] ?? []).reduce((a, b) => a * b, 1), 0);
  }

  return { shapes, tied, original, set, reset, args, get bytes() { return bytes(); } };
}

export type Sizes = ReturnType<typeof Sizes>;

/** A slider's positions are powers of two, four between each two: from 1 to 16 times the size, at least 4096. */
export function positions(original: number): number {
  return Math.ceil(4 * Math.log2(Math.max(4096, Math.min(original * 16, MOST))));
}

export const sizeAt = (position: number): number => Math.round(2 ** (position / 4));

export const positionOf = (size: number): number => Math.round(4 * Math.log2(Math.max(size, 1)));

const bytesOf = (dtype: string): number => (dtype.includes("bool") ? 1 : Number(/(\d+)/.exec(dtype)?.[1] ?? 32) / 8);
