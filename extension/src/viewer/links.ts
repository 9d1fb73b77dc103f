// The chain of causes in a record: source line -> instruction -> FX node -> ATen node -> buffer -> generated line.
// The same edges as explorer/view/provenance.py; a test compares the two.

import { type Key, key, parts } from "./element";
import type { CompileData, LineData, RecordData, TextData } from "./record";

type Edges = Map<Key, Set<Key>>;

export class Links {
  private readonly up: Edges = new Map();
  private readonly down: Edges = new Map();
  private readonly chains = new Map<Key, ReadonlySet<Key>>();

  constructor(record: RecordData) {
    for (const compile of record.compiles) this.add(compile);
  }

  /** The element, its causes and its effects: what is highlighted for it. */
  chain(of: Key): ReadonlySet<Key> {
    let found = this.chains.get(of);
    if (!found) {
      const reached = closure(this.up, of);
      closure(this.down, of).forEach(each => reached.add(each));
      this.chains.set(of, (found = reached));
    }
    return found;
  }

  causes(of: Key): ReadonlySet<Key> {
    return closure(this.up, of);
  }

  effects(of: Key): ReadonlySet<Key> {
    return closure(this.down, of);
  }

  /** The source lines at the top of an element's chain, as keys. */
  sourceLines(of: Key): Key[] {
    return [...closure(this.up, of)].filter(each => parts(each).compile === "").sort();
  }

  /** All source lines that caused something. */
  allSourceLines(): Key[] {
    return [...this.down.keys()].filter(each => parts(each).compile === "");
  }

  /** What an element names as its origins. */
  directCauses(of: Key): readonly Key[] {
    return [...(this.up.get(of) ?? [])];
  }

  /** The reasons of an element that no source line caused. */
  synthetic(of: Key): string[] {
    const reasons = [...closure(this.up, of)].map(each => parts(each).id);
    return reasons.filter(id => id.startsWith("synthetic:")).map(id => id.slice("synthetic:".length));
  }

  private add(compile: CompileData): void {
    for (const [id, origins] of elements(compile)) {
      const own = key(compile.id, id);
      for (const origin of origins) {
        const cause = key(compile.id, origin);
        if (cause === own) continue;
        connect(this.up, own, cause);
        connect(this.down, cause, own);
      }
    }
  }
}

function connect(edges: Edges, from: Key, to: Key): void {
  const found = edges.get(from);
  if (found) found.add(to);
  else edges.set(from, new Set([to]));
}

function closure(edges: Edges, start: Key): Set<Key> {
  const seen = new Set([start]);
  const stack = [start];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    for (const each of edges.get(next) ?? []) {
      if (!seen.has(each)) {
        seen.add(each);
        stack.push(each);
      }
    }
  }
  return seen;
}

const NONE: readonly string[] = [];

function* linesOf(text: TextData | null | undefined): Iterable<[string, readonly string[]]> {
  for (const [, id, origins] of text?.lines ?? ([] as LineData[])) if (id) yield [id, origins ?? NONE];
}

/** Every element of a compile that has an id, with its origins. */
export function* elements(compile: CompileData): Iterable<[string, readonly string[]]> {
  for (const stage of compile.stages ?? []) {
    yield* linesOf(stage.body);
    for (const graph of [stage.graph, ...(stage.halves ?? [])]) {
      for (const node of graph?.nodes ?? []) yield [node.id, node.origins];
    }
  }
  for (const code of compile.codes ?? []) {
    for (const instruction of code.instructions) {
      const span = instruction.span ? [`${instruction.span.file}:${instruction.span.line}`] : NONE;
      yield [instruction.id, [...(instruction.origins ?? NONE), ...span]];
    }
  }
  for (const node of compile.eager_backward ?? []) yield [node.id, node.origins];
  for (const half of compile.halves ?? []) {
    for (const kernel of half.kernels ?? []) {
      yield* linesOf(kernel.source);
      for (const lowered of Object.values(kernel.lowered ?? {})) yield* linesOf(lowered);
      yield [kernel.id, kernel.origins];
    }
    yield* linesOf(half.wrapper);
    for (const buffer of half.buffers ?? []) yield [buffer.name, buffer.origins];
    for (const operation of half.operations ?? []) yield [operation.id, operation.origins];
  }
}
