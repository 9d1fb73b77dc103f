// The chain of causes in a record: source line -> instruction -> FX node -> ATen node -> buffer -> generated line.
// The same edges as explorer/records/data/provenance.py; a test compares the two.

import { isSourceLine, type Key, key, parts, syntheticReason } from "./element";
import { entry } from "./collections";
import type { CompileData, RecordData, StageData, TextData } from "./record";

const NO_LINE = -1;
const MANY = -2;

/** Origins beyond which they are looked up in a set. */
const FEW = 20;

/** Elements by number. */
class Edges {
  readonly names: Key[] = [];
  /** By compile, "" for source lines, and by id. */
  readonly numbers = new Map<string, Map<string, number>>();
  /** The numbers of what each was caused by, and of what it caused. */
  readonly up: number[][] = [];
  readonly down: number[][] = [];
  readonly instructions = new Set<number>();
  readonly guessed = new Map<Key, string>();
  /** What of the record is in here. */
  readonly added = new Set<object>();
}

export class Links {
  readonly #edges: Edges;
  readonly #chains = new Map<Key, ReadonlySet<Key>>();
  /** By number, of what has been asked: the number of its one line, or one of those below. */
  readonly #lines: number[] = [];

  /** `before` are those of a record that this one grew out of: what it had is taken over, and `before` is at an end. */
  constructor(record: Pick<RecordData, "compiles"> & Partial<RecordData>, before?: Links) {
    const parts = record.compiles.flatMap(compile => partsOf(compile).map(part => [compile, part] as const));
    const grown = before && before.#edges;
    const { added } =
      (this.#edges = grown && parts.filter(([, part]) => grown.added.has(part)).length === grown.added.size
        ? grown : new Edges());
    for (const [compile, part] of parts) if (!added.has(part)) this.#add(compile, part);
  }

  /** Every element that causes or is caused. */
  get all(): readonly Key[] {
    return this.#edges.names;
  }

  /** The element, its causes and its effects: what is highlighted for it. */
  chain(of: Key): ReadonlySet<Key> {
    let found = this.#chains.get(of);
    if (!found) this.#chains.set(of, (found = new Set([of, ...this.#named(this.#around(of))])));
    return found;
  }

  causes(of: Key): ReadonlySet<Key> {
    const start = this.#number(of);
    return new Set(start === undefined ? [of] : this.#named(closure(this.#edges.up, start)));
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
    return this.#edges.names.filter((name, n) => {
      if (parts(name).compile !== "") return false;
      for (const each of closure(this.#edges.down, n)) if (each !== n && !this.#edges.instructions.has(each))
        return true;
      return false;
    });
  }

  /** The compiles in whose programs an element's chain is: more than instructions. */
  programsOf(of: Key): string[] {
    const found = this.#around(of).filter(n => !this.#edges.instructions.has(n));
    return [...new Set(found.map(n => parts(this.#edges.names[n]!).compile))].filter(Boolean);
  }

  /** How the origins of an element were worked out, where its compiler did not tell them. */
  inferred(of: Key): string | undefined {
    return this.#edges.guessed.get(of);
  }

  /** The one source line at the top of an element's chain. */
  line(element: Key): Key | "many" | null {
    const at = this.#number(element);
    if (at === undefined) return isSourceLine(parts(element).id) ? element : null;
    const found = this.#lineOf(at);
    return found === MANY ? "many" : (this.#edges.names[found] ?? null);
  }

  /** Iterative, since chains can be long. */
  #lineOf(of: number): number {
    const { names, up } = this.#edges;
    const [found, stack] = [this.#lines, [of]];
    const entered = new Set<number>();
    for (let next = stack.at(-1); next !== undefined; next = stack.at(-1)) {
      const causes = found[next] === undefined ? up[next]! : [];
      const open = entered.has(next) ? [] : causes.filter(cause => found[cause] === undefined && !entered.has(cause));
      entered.add(next);
      stack.push(...open);
      if (open.length > 0) continue;
      stack.pop();
      found[next] ??= causes.map(cause => found[cause] ?? NO_LINE)
        .reduce((one, other) => (one === NO_LINE || one === other ? other : other === NO_LINE ? one : MANY),
        names[next]!.startsWith("|") ? next : NO_LINE);
    }
    return found[of]!;
  }

  /** Whether an element in the chain of `lead` is its source line's own; else it is shared with other lines. */
  direct(lead: Key, of: Key): boolean {
    const [from, to] = [this.#number(lead), this.#number(of)];
    return of === lead || (from !== undefined && to !== undefined && this.#direct(this.#lineOf(from), to));
  }

  /** What an element caused, and whether it is its source line's own. */
  became(lead: Key): (readonly [Key, boolean])[] {
    const start = this.#number(lead);
    if (start === undefined) return [];
    const line = this.#lineOf(start);
    return [...closure(this.#edges.down, start)].slice(1)
      .map(n => [this.#edges.names[n]!, this.#direct(line, n)] as const);
  }

  #direct(line: number, of: number): boolean {
    const own = this.#lineOf(of);
    return own >= 0 && (own === line || line === MANY);
  }

  #add(compile: CompileData, part: RecordPart): void {
    const { names, numbers, up, down, instructions, guessed, added } = this.#edges;
    const under = (compile: string) => entry(numbers, compile, () => new Map<string, number>());
    const [known, lines] = [under(compile.id), under("")];
    const number = (id: string): number => {
      let found = known.get(id);
      if (found !== undefined) return found;
      const line = isSourceLine(id);
      found = (line ? lines.get(id) : undefined) ?? names.length;
      if (found === names.length) {
        names.push(key(compile.id, id));
        up.push([]);
        down.push([]);
        if (line) lines.set(id, found);
      }
      known.set(id, found);
      return found;
    };
    added.add(part);
    visit(compile, part, (id, origins) => {
      const own = number(id);
      const causes = up[own]!;
      const known = origins.length > FEW ? new Set(causes) : null;
      for (const origin of origins) {
        const cause = number(origin);
        if (cause === own || (known ? known.has(cause) : causes.includes(cause))) continue;
        known?.add(cause);
        causes.push(cause);
        down[cause]!.push(own);
      }
    });
    if (part === compile.codes) for (const code of compile.codes) for (const { id } of code.instructions)
      instructions.add(number(id));
    if (part === compile.inferred) for (const [how, ids] of Object.entries(compile.inferred)) for (const id of ids)
      guessed.set(key(compile.id, id), how);
  }

  #number(of: Key): number | undefined {
    const { compile, id } = parts(of);
    return this.#edges.numbers.get(compile)?.get(id);
  }

  /** What an element's chain is made of. */
  #around(of: Key): number[] {
    const start = this.#number(of);
    return start === undefined ? [] : [...closure(this.#edges.up, start), ...closure(this.#edges.down, start)];
  }

  #named(numbers: Iterable<number>): Key[] {
    return [...numbers].map(n => this.#edges.names[n]!);
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

/** What a compile is made of. A growing record keeps the ones that it has, and gets more. */
type RecordPart = object;

function partsOf({ stages, codes, eager_backward, halves, inferred }: CompileData): RecordPart[] {
  return [...(stages ?? []), codes, eager_backward, halves, inferred].filter(part => part !== undefined);
}

type Visit = (id: string, origins: readonly string[]) => void;

/** Every element of a part that has an id, with its origins. */
function visit(compile: CompileData, part: RecordPart, see: Visit): void {
  const nodes = (of: readonly { readonly id: string; readonly origins: readonly string[] }[] | undefined) =>
    of?.forEach(({ id, origins }) => see(id, origins));
  const lines = (text: TextData | null | undefined) =>
    text?.lines.forEach(([, id, origins]) => id && see(id, origins ?? NONE));
  switch (part) {
    case compile.codes:
      for (const { instructions } of compile.codes ?? []) for (const { id, span, origins = NONE } of instructions)
        see(id, span ? [...origins, `${span.file}:${span.line}`] : origins);
      return;
    case compile.eager_backward: return nodes(compile.eager_backward);
    case compile.halves: return compile.halves?.forEach(half => {
      for (const kernel of half.kernels ?? []) {
        lines(kernel.source);
        Object.values(kernel.lowered ?? {}).forEach(lines);
        see(kernel.id, kernel.origins);
      }
      lines(half.wrapper);
      for (const { name, origins } of half.buffers ?? []) see(name, origins);
      nodes(half.operations);
    });
    case compile.inferred: return;
    default: {
      const { body, graph, halves = [] } = part as StageData;
      lines(body);
      for (const each of [graph, ...halves]) nodes(each?.nodes);
    }
  }
}
