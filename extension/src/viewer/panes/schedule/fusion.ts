// What fusion decided: why any two operations are, or are not, in one kernel, by what the record says of them or of
// their kernels; and its attempts, replayed (as explorer/show/view/walk.py).

import type { FusionData, HalfData, ItemData, WhyData } from "../../record";
import { entry } from "../../collections";
import { type StepFacts, found, type Moves } from "../../walk";

interface Statement {
  readonly text: string;
  readonly why?: WhyData;
}

export interface Explanation {
  readonly together: boolean;
  readonly headline: string;
  readonly statements: readonly Statement[];
}

/** `named`: what a person calls an operation. */
export function Pairs(half: HalfData, named: (id: string) => string) {
  const homes = new Map<string, ItemData>();
  for (const item of half.schedule?.items ?? []) for (const id of item.operations) homes.set(id, item);
  const fusions = half.schedule?.fusions ?? [];
  const otherwise = half.schedule?.otherwise;

  function explain(first: string, second: string): Explanation {
    const [one, other] = [homes.get(first), homes.get(second)];
    if (!one || !other) {
      const missing = one ? second : first;
      return notFused("Not in this schedule", [{ text: `No step of the schedule runs ${missing}.` }]);
    }
    if (first === second) return { together: true, headline: "The same operation", statements: [] };
    return one === other ? whyTogether(first, second, one) : whyNotFused(first, second, one, other);
  }

  function whyTogether(first: string, second: string, item: ItemData): Explanation {
    const headline = `Fused, in ${item.id}`;
    const own = verdict(first, second);
    if (own) return { together: true, headline, statements: [verdictText(own)] };
    const path = joined(first, second, new Set(item.operations));
    if (path) {
      const text = "Not fused directly: each was fused with others of this kernel.";
      return { together: true, headline, statements: [{ text }, ...path.map(each => verdictText(each))] };
    }
    const text = `Both are in ${item.id}, and the record holds no verdict that joined them.`;
    return { together: true, headline, statements: [{ text }] };
  }

  function whyNotFused(first: string, second: string, one: ItemData, other: ItemData): Explanation {
    const headline = `Not fused: in ${one.id} and ${other.id}`;
    const own = verdict(first, second);
    if (own) return notFused(headline, [verdictText(own)]);
    const excluded =
      [one, other].flatMap(each => (each.why ? [{ text: `${each.id} with any other:`, why: each.why }] : []));
    if (excluded.length > 0) return notFused(headline, excluded);
    const between = fusions.filter(each => links(each, one, other));
    if (between.length > 0) {
      const text = "This pair was not tried. Their kernels were, by these pairs:";
      return notFused(headline, [{ text }, ...between.map(each => verdictText(each))]);
    }
    if (otherwise) return notFused(headline, [{ text: `${one.id} with ${other.id}:`, why: otherwise }]);
    return notFused(headline, [{ text: `The record holds no verdict on ${one.id} and ${other.id}.` }]);
  }

  function verdictText({ first, second, why }: FusionData): Statement {
    return { text: `${named(first)} with ${named(second)}:`,
      why: why.detail ? { ...why, detail: why.detail.replace(/\w+/g, named) } : why };
  }

  function verdict(first: string, second: string): FusionData | undefined {
    const both = (each: FusionData) => (each.first === first && each.second === second)
      || (each.first === second && each.second === first);
    return fusions.find(both);
  }

  function links(each: FusionData, one: ItemData, other: ItemData): boolean {
    const [a, b] = [homes.get(each.first), homes.get(each.second)];
    return (a === one && b === other) || (a === other && b === one);
  }

  /** The fewest verdicts that joined two operations through others of the same kernel. */
  function joined(first: string, second: string, members: ReadonlySet<string>): FusionData[] | null {
    const edges = fusions.filter(each => each.ok && members.has(each.first) && members.has(each.second));
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

  return { explain };
}

export type Pairs = ReturnType<typeof Pairs>;

function notFused(headline: string, statements: readonly Statement[]): Explanation {
  return { together: false, headline, statements };
}

type Groups = ReadonlyMap<string, readonly string[]>;

export const MOVES: Moves = { f: ["fused:", "fused"], p: ["later:", "postponed"], r: ["refused:", "refused"] };

/** For each operation those that it is in one kernel with, after each attempt: one list for all of a kernel. The same
 * map and lists change. */
function* replayed(tried: readonly FusionData[]): Generator<Groups> {
  const groups = new Map<string, string[]>();
  for (const { first, second, ok, later } of tried) {
    if (ok && !later) {
      const [larger, smaller] = [first, second].map(id => entry(groups, id, () => [id]))
        .sort((a, b) => b.length - a.length) as [string[], string[]];
      if (larger !== smaller) for (const id of smaller) {
        larger.push(id);
        groups.set(id, larger);
      }
    }
    yield groups;
  }
}

/** The operations that were together after an attempt. */
export function kernelsAt(tried: readonly FusionData[], at: number): (readonly string[])[] {
  let groups: Groups = new Map();
  for (groups of replayed(tried.slice(0, at + 1)));
  return [...new Set(groups.values())].filter(each => each[1]);
}

export function outcome({ ok, later }: FusionData): "later" | "fused" | "refused" {
  return later ? "later" : ok ? "fused" : "refused";
}

export function find(tried: readonly FusionData[], query: string): number[] | string {
  const because = (_: Groups, at: number) =>
    `${tried[at]!.why.title}: ${tried[at]!.why.detail ?? ""} [${tried[at]!.why.code}]`;
  const operation = (_: Groups, at: number) => [tried[at]!.first, tried[at]!.second];
  const came = (what: string) => (of: Groups, at: number) => outcome(tried[at]!) === what && because(of, at);
  const facts: StepFacts<Groups> = {
    because, operation, fused: came("fused"), later: came("later"), refused: came("refused"),
    kernel: (groups, at) => operation(groups, at).map(id => (groups.get(id) ?? []).join(" ")), step: (_, at) => at,
    saves: (_, at) => tried[at]!.score ?? 0,
  };
  return found(query, facts, replayed(tried));
}
