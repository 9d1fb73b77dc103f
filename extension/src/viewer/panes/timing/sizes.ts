// The sizes that a new timing run is to use: one slider for each dimension, and those that were equal move together.

import type { Argument } from "../../protocol";
import { Signal } from "../../signal";
import type { Shapes } from "./runs";

export interface Dim {
  readonly argument: string;
  readonly dim: number;
}

const MOST = 2 ** 24;

export class Sizes {
  readonly shapes: Signal<Shapes>;
  /** Sizes that were equal at first, and more than 1, keep being equal: most programs ask for it. */
  readonly tied = new Signal(true);

  constructor(readonly args: readonly Argument[]) {
    this.shapes = new Signal(this.original());
  }

  original(): Shapes {
    return Object.fromEntries(this.args.map(each => [each.name, each.shape]));
  }

  set(which: Dim, size: number): void {
    const wanted = Math.min(Math.max(Math.round(size), 1), MOST);
    if (!Number.isFinite(wanted)) return;
    const original = this.#originally(which);
    const moves = (argument: Argument, dim: number) =>
      (argument.name === which.argument && dim === which.dim)
      || (this.tied.value && original > 1 && argument.shape[dim] === original);
    this.shapes.value = Object.fromEntries(this.args.map(argument => {
      const now = this.shapes.value[argument.name] ?? argument.shape;
      return [argument.name, now.map((old, dim) => (moves(argument, dim) ? wanted : old))];
    }));
  }

  reset(): void {
    this.shapes.value = this.original();
  }

  /** Bytes of all arguments at these sizes. */
  get bytes(): number {
    return this.args.reduce((sum, each) => sum + bytesOf(each.dtype) * (this.shapes.value[each.name] ?? []).reduce((a, b) => a * b, 1), 0);
  }

  #originally(which: Dim): number {
    return this.args.find(each => each.name === which.argument)?.shape[which.dim] ?? 1;
  }
}

/** A slider's positions are powers of two, four between each two: from 1 to 16 times the size, at least 4096. */
export function positions(original: number): number {
  return Math.ceil(4 * Math.log2(Math.max(4096, Math.min(original * 16, MOST))));
}

export function sizeAt(position: number): number {
  return Math.round(2 ** (position / 4));
}

export function positionOf(size: number): number {
  return Math.round(4 * Math.log2(Math.max(size, 1)));
}

function bytesOf(dtype: string): number {
  return dtype.includes("bool") ? 1 : Number(/(\d+)/.exec(dtype)?.[1] ?? 32) / 8;
}
