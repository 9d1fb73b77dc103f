// Why any two operations are, or are not, in one kernel: what the record says, and what follows from it.

import type { FusionData, HalfData, ItemData, OperationData, WhyData } from "../../record";

export interface Statement {
  readonly text: string;
  readonly why?: WhyData;
  /** "recorded": the compiler's own verdict. "inferred": follows from what was recorded. "unknown": the record does not tell. */
  readonly standing: "recorded" | "inferred" | "unknown";
}

export interface Explanation {
  readonly together: boolean;
  readonly headline: string;
  readonly statements: readonly Statement[];
}

/** What is known of the compiler that made the schedule. */
export interface Known {
  readonly fusionOff: boolean;
  readonly triesOnlySharing: boolean;
  /** What a person calls an operation. */
  named(id: string): string;
}

export class Pairs {
  readonly #operations: ReadonlyMap<string, OperationData>;
  readonly #homes = new Map<string, ItemData>();
  readonly #fusions: readonly FusionData[];
  readonly #storage: (buffer: string) => string;
  readonly #after: ReadonlyMap<string, ReadonlyMap<string, string>>;
  readonly #known: Known;

  constructor(half: HalfData, known: Known) {
    this.#known = known;
    this.#operations = new Map((half.operations ?? []).map(each => [each.id, each]));
    for (const item of half.schedule?.items ?? []) for (const id of item.operations) this.#homes.set(id, item);
    this.#fusions = half.schedule?.fusions ?? [];
    this.#storage = storageOf(half);
    this.#after = this.#users(half.schedule?.items ?? []);
  }

  explain(first: string, second: string): Explanation {
    const [one, other] = [this.#homes.get(first), this.#homes.get(second)];
    if (!one || !other) {
      const missing = one ? second : first;
      return apart("Not in this schedule", [{ standing: "inferred", text: `No step of the schedule runs ${missing}.` }]);
    }
    if (first === second) return { together: true, headline: "The same operation", statements: [] };
    return one === other ? this.#together(first, second, one) : this.#apart(first, second, one, other);
  }

  #together(first: string, second: string, item: ItemData): Explanation {
    const headline = `Fused, in ${item.id}`;
    const own = this.#verdict(first, second);
    if (own) return { together: true, headline, statements: [this.#recorded(own)] };
    const path = this.#joined(first, second, new Set(item.operations));
    if (path) {
      const text = "Not fused directly: both were fused with other operations, which brought them into one kernel.";
      return { together: true, headline, statements: [{ standing: "inferred", text }, ...path.map(each => this.#recorded(each))] };
    }
    const text = `Both are in ${item.id}, and the record holds no verdict that joined them.`;
    return { together: true, headline, statements: [{ standing: "unknown", text }] };
  }

  #apart(first: string, second: string, one: ItemData, other: ItemData): Explanation {
    const headline = `Not fused: in ${one.id} and ${other.id}`;
    const own = this.#verdict(first, second);
    if (own) return apart(headline, [this.#recorded(own)]);
    const called = [first, second].map(id => this.#operations.get(id)).filter(each => each?.kind === "extern");
    if (called.length > 0) {
      const names = called.map(each => `${each?.id} calls ${each?.target}`).join(", and ");
      return apart(headline, [{ standing: "inferred", text: `A library call runs as it is, so nothing is fused into it: ${names}.` }]);
    }
    if (this.#known.fusionOff) return apart(headline, [{ standing: "inferred", text: "Fusion was switched off for this compile." }]);
    const between = this.#fusions.filter(each => this.#links(each, one, other));
    const statements: Statement[] = between.map(each => this.#recorded(each));
    const path = this.#path(one.id, other.id) ?? this.#path(other.id, one.id);
    if (path) statements.push({ standing: "inferred", text: `One kernel of both would have to run before and after a third: ${path}.` });
    if (between.length > 0) {
      const text = `These two were not tried with each other. Their kernels were, through ${between.length === 1 ? "this pair" : "these pairs"}:`;
      return apart(headline, [{ standing: "inferred", text }, ...statements]);
    }
    return apart(headline, [...statements, this.#untried(one, other)]);
  }

  #untried(one: ItemData, other: ItemData): Statement {
    const others = this.#touched(other);
    const shared = [...this.#touched(one)].filter(each => others.has(each));
    if (shared.length === 0 && this.#known.triesOnlySharing) {
      const text = `No pair of them was tried: ${one.id} and ${other.id} touch no buffer in common, and only what shares one is tried.`;
      return { standing: "inferred", text };
    }
    const touch = shared.length > 0 ? `both touch ${some(shared)}` : "touch no buffer in common";
    const text = `${one.id} and ${other.id} ${touch}; the record holds no verdict on a pair of theirs.`;
    return { standing: "unknown", text };
  }

  #recorded({ first, second, why }: FusionData): Statement {
    return { standing: "recorded", text: `${this.#known.named(first)} with ${this.#known.named(second)}:`, why };
  }

  #verdict(first: string, second: string): FusionData | undefined {
    const both = (each: FusionData) => (each.first === first && each.second === second) || (each.first === second && each.second === first);
    return this.#fusions.find(both);
  }

  #links(each: FusionData, one: ItemData, other: ItemData): boolean {
    const [a, b] = [this.#homes.get(each.first), this.#homes.get(each.second)];
    return (a === one && b === other) || (a === other && b === one);
  }

  /** The fewest verdicts that joined two operations through others of the same kernel. */
  #joined(first: string, second: string, members: ReadonlySet<string>): FusionData[] | null {
    const edges = this.#fusions.filter(each => each.ok && members.has(each.first) && members.has(each.second));
    const reached = new Map<string, readonly FusionData[]>([[first, []]]);
    for (const [at, path] of reached) {
      if (at === second) return [...path];
      for (const each of edges) {
        const next = each.first === at ? each.second : each.second === at ? each.first : null;
        if (next !== null && !reached.has(next)) reached.set(next, [...path, each]);
      }
    }
    return null;
  }

  /** A way from what one item makes to what another reads that leads through a third, in words. */
  #path(from: string, to: string): string | null {
    const reached = new Map<string, readonly string[]>();
    const pending: [string, readonly string[]][] = [...(this.#after.get(from) ?? [])]
      .filter(([id]) => id !== to)
      .map(([id, buffer]) => [id, [`${id} needs ${buffer} of ${from}`]]);
    for (let next = pending.shift(); next; next = pending.shift()) {
      const [at, words] = next;
      if (reached.has(at)) continue;
      reached.set(at, words);
      for (const [id, buffer] of this.#after.get(at) ?? []) {
        const said = [...words, `${id} needs ${buffer} of ${at}`];
        if (id === to) return said.join(", ");
        pending.push([id, said]);
      }
    }
    return null;
  }

  /** For each item, those that read what it makes, with a buffer that they read. */
  #users(items: readonly ItemData[]): Map<string, Map<string, string>> {
    const makers = new Map<string, string>();
    for (const item of items) for (const id of item.operations) for (const buffer of this.#operations.get(id)?.writes ?? []) makers.set(buffer, item.id);
    const found = new Map<string, Map<string, string>>(items.map(item => [item.id, new Map()]));
    for (const item of items) {
      for (const id of item.operations) {
        for (const buffer of this.#operations.get(id)?.reads ?? []) {
          const maker = makers.get(buffer);
          if (maker !== undefined && maker !== item.id) found.get(maker)?.set(item.id, buffer);
        }
      }
    }
    return found;
  }

  #touched(item: ItemData): Set<string> {
    const operations = item.operations.map(id => this.#operations.get(id));
    return new Set(operations.flatMap(each => [...(each?.reads ?? []), ...(each?.writes ?? [])]).map(this.#storage));
  }
}

/** The buffer that owns the storage of another. */
function storageOf(half: HalfData): (buffer: string) => string {
  const owners = new Map((half.buffers ?? []).filter(each => each.where_why?.code === "memory.alias").map(each => [each.name, each.of ?? ""]));
  const owner = (buffer: string): string => {
    const seen = new Set([buffer]);
    let at = buffer;
    for (let next = owners.get(at); next && !seen.has(next); next = owners.get(at)) {
      seen.add(next);
      at = next;
    }
    return at;
  };
  return owner;
}

function apart(headline: string, statements: readonly Statement[]): Explanation {
  return { together: false, headline, statements };
}

function some(names: readonly string[]): string {
  return names.length <= 3 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`;
}
