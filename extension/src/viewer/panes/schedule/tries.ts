// What fusion tried, replayed. As explorer/show/view/walk.py.

import { entry } from "../../collections";
import type { FusionData } from "../../record";
import { type StepFacts, found, type Moves } from "../../walk";

type Groups = ReadonlyMap<string, readonly string[]>;

export const MOVES: Moves = { f: ["fused:", "fused"], p: ["later:", "put off"], r: ["refused:", "refused"] };

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
