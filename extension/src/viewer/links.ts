// The chain of causes in a record: source line -> instruction -> FX node -> ATen node -> buffer -> generated line.
// The same edges as explorer/show/view/provenance.py; a test compares the two.

import { isSourceLine, type Key, key, parts, syntheticReason } from "./element";
import type { CodeData, CompileData, HalfData, LineData, RecordData, StageData, TextData } from "./record";

/** Origins beyond which they are looked up in a set. */
const FEW = 20;

export class Links {
  /** Elements by number, and the numbers of what each was caused by, and of what it caused. */
  readonly #names: Key[];
  readonly #numbers: Map<Key, number>;
  readonly #up: number[][];
  readonly #down: number[][];
  readonly #instructions: Set<number>;
  readonly #guessed: Map<Key, string>;
  /** What of the record is in here. */
  readonly #added: Set<object>;
  readonly #chains = new Map<Key, ReadonlySet<Key>>();
  readonly #lines = new Map<Key, Key | "many" | null>();

  /** `before` are those of a record that this one grew out of: what it had is taken over, and `before` is at an end. */
  constructor(record: Pick<RecordData, "compiles"> & Partial<RecordData>, before?: Links) {
    const parts = record.compiles.flatMap(compile => partsOf(compile).map(part => [compile, part] as const));
    const grown = before && parts.filter(([, part]) => before.#added.has(part)).length === before.#added.size ? before : undefined;
    this.#names = grown ? grown.#names : [];
    this.#numbers = grown ? grown.#numbers : new Map();
    this.#up = grown ? grown.#up : [];
    this.#down = grown ? grown.#down : [];
    this.#instructions = grown ? grown.#instructions : new Set();
    this.#guessed = grown ? grown.#guessed : new Map();
    this.#added = grown ? grown.#added : new Set();
    for (const [compile, part] of parts) if (!this.#added.has(part)) this.#add(compile, part);
  }

  /** Every element that causes or is caused. */
  get all(): readonly Key[] {
    return this.#names;
  }

  /** The element, its causes and its effects: what is highlighted for it. */
  chain(of: Key): ReadonlySet<Key> {
    let found = this.#chains.get(of);
    if (!found) {
      const start = this.#numbers.get(of);
      const reached = start === undefined ? [] : [...closure(this.#up, start), ...closure(this.#down, start)];
      this.#chains.set(of, (found = new Set([of, ...reached.map(n => this.#names[n] as Key)])));
    }
    return found;
  }

  causes(of: Key): ReadonlySet<Key> {
    return this.#reached(this.#up, of);
  }

  effects(of: Key): ReadonlySet<Key> {
    return this.#reached(this.#down, of);
  }

  /** What an element names as its origins. */
  directCauses(of: Key): readonly Key[] {
    return this.#next(this.#up, of);
  }

  /** The source lines at the top of an element's chain, as keys. */
  sourceLines(of: Key): Key[] {
    return [...this.causes(of)].filter(each => parts(each).compile === "").sort();
  }

  /** The reasons of an element that no source line caused. */
  synthetic(of: Key): string[] {
    return [...this.causes(of)].flatMap(each => syntheticReason(parts(each).id) ?? []);
  }

  /** The source lines that caused more than instructions: those that are in the compiled program. */
  programLines(): Key[] {
    return this.#names.filter((name, n) => {
      if (parts(name).compile !== "") return false;
      for (const each of closure(this.#down, n)) if (each !== n && !this.#instructions.has(each)) return true;
      return false;
    });
  }

  /** The compiles in whose programs an element's chain is: more than instructions. */
  programsOf(of: Key): string[] {
    const found = [...this.chain(of)].filter(each => !this.#instructions.has(this.#numbers.get(each) ?? -1));
    return [...new Set(found.map(each => parts(each).compile))].filter(Boolean);
  }

  /** How the origins of an element were worked out, where its compiler did not tell them. */
  inferred(of: Key): string | undefined {
    return this.#guessed.get(of);
  }

  /** The one source line at the top of an element's chain. Iterative, since chains can be long. */
  line(element: Key): Key | "many" | null {
    const stack = [element];
    const entered = new Set<Key>();
    for (let next = stack[stack.length - 1]; next !== undefined; next = stack[stack.length - 1]) {
      const causes = this.#lines.has(next) ? [] : this.directCauses(next);
      const open = entered.has(next) ? [] : causes.filter(cause => !this.#lines.has(cause) && !entered.has(cause));
      entered.add(next);
      if (open.length > 0) {
        stack.push(...open);
        continue;
      }
      stack.pop();
      if (this.#lines.has(next)) continue;
      const own = isSourceLine(parts(next).id) ? next : null;
      this.#lines.set(next, causes.map(cause => this.#lines.get(cause) ?? null).reduce(together, own));
    }
    return this.#lines.get(element) ?? null;
  }

  /** Whether an element in the chain of `lead` is its source line's own; else it is shared with other lines. */
  direct(lead: Key, of: Key): boolean {
    const [line, own] = [this.line(lead), this.line(of)];
    return of === lead || (own !== null && own !== "many" && (own === line || line === "many"));
  }

  #add(compile: CompileData, part: Part): void {
    this.#added.add(part);
    const known = new Map<string, number>();
    const number = (id: string): number => {
      let found = known.get(id);
      if (found === undefined) known.set(id, (found = this.#number(key(compile.id, id))));
      return found;
    };
    for (const [id, origins] of elementsOf(compile, part)) {
      const own = number(id);
      const causes = this.#up[own] as number[];
      const known = origins.length > FEW ? new Set(causes) : null;
      for (const origin of origins) {
        const cause = number(origin);
        if (cause === own || (known ? known.has(cause) : causes.includes(cause))) continue;
        known?.add(cause);
        causes.push(cause);
        (this.#down[cause] as number[]).push(own);
      }
    }
    if (part === compile.codes) for (const code of compile.codes) for (const { id } of code.instructions) this.#instructions.add(number(id));
    if (part === compile.inferred) for (const [how, ids] of Object.entries(compile.inferred)) for (const id of ids) this.#guessed.set(key(compile.id, id), how);
  }

  #number(of: Key): number {
    let found = this.#numbers.get(of);
    if (found === undefined) {
      this.#numbers.set(of, (found = this.#names.length));
      this.#names.push(of);
      this.#up.push([]);
      this.#down.push([]);
    }
    return found;
  }

  #next(edges: readonly (readonly number[])[], of: Key): Key[] {
    const start = this.#numbers.get(of);
    return start === undefined ? [] : (edges[start] as number[]).map(n => this.#names[n] as Key);
  }

  #reached(edges: readonly (readonly number[])[], of: Key): ReadonlySet<Key> {
    const start = this.#numbers.get(of);
    return new Set(start === undefined ? [of] : [...closure(edges, start)].map(n => this.#names[n] as Key));
  }
}

/** The one line that two are, or "many". */
export function together(one: Key | "many" | null, other: Key | "many" | null): Key | "many" | null {
  if (one === null || one === other) return other;
  return other === null ? one : "many";
}

function closure(edges: readonly (readonly number[])[], start: number): Set<number> {
  const seen = new Set([start]);
  for (const next of seen) for (const each of edges[next] as number[]) seen.add(each);
  return seen;
}

const NONE: readonly string[] = [];

function* linesOf(text: TextData | null | undefined): Iterable<[string, readonly string[]]> {
  for (const [, id, origins] of text?.lines ?? ([] as LineData[])) if (id) yield [id, origins ?? NONE];
}

/** What a compile is made of. A growing record keeps the ones that it has, and gets more. */
type Part = object;

function partsOf({ stages, codes, eager_backward, halves, inferred }: CompileData): Part[] {
  return [...(stages ?? []), codes, eager_backward, halves, inferred].filter(part => part !== undefined);
}

/** Every element of a compile that has an id, with its origins. */
export function* elements(compile: CompileData): Iterable<[string, readonly string[]]> {
  for (const part of partsOf(compile)) yield* elementsOf(compile, part);
}

function* elementsOf(compile: CompileData, part: Part): Iterable<[string, readonly string[]]> {
  switch (part) {
    case compile.codes: return yield* ofCodes(compile.codes ?? []);
    case compile.eager_backward: return yield* ofNodes(compile.eager_backward ?? []);
    case compile.halves: return yield* ofHalves(compile.halves ?? []);
    case compile.inferred: return;
    default: return yield* ofStage(part as StageData);
  }
}

function* ofNodes(nodes: readonly { readonly id: string; readonly origins: readonly string[] }[]): Iterable<[string, readonly string[]]> {
  for (const { id, origins } of nodes) yield [id, origins];
}

function* ofStage(stage: StageData): Iterable<[string, readonly string[]]> {
  yield* linesOf(stage.body);
  for (const graph of [stage.graph, ...(stage.halves ?? [])]) yield* ofNodes(graph?.nodes ?? []);
}

function* ofCodes(codes: readonly CodeData[]): Iterable<[string, readonly string[]]> {
  for (const { instructions } of codes) {
    for (const { id, span, origins } of instructions) yield [id, [...(origins ?? NONE), ...(span ? [`${span.file}:${span.line}`] : NONE)]];
  }
}

function* ofHalves(halves: readonly HalfData[]): Iterable<[string, readonly string[]]> {
  for (const half of halves) {
    for (const kernel of half.kernels ?? []) {
      yield* linesOf(kernel.source);
      for (const lowered of Object.values(kernel.lowered ?? {})) yield* linesOf(lowered);
      yield [kernel.id, kernel.origins];
    }
    yield* linesOf(half.wrapper);
    for (const buffer of half.buffers ?? []) yield [buffer.name, buffer.origins];
    yield* ofNodes(half.operations ?? []);
  }
}
