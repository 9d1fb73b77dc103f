// What fusion tried, replayed. As explorer/show/view/tries.py.

import type { FusionData } from "../../record";
import { type Facts, found, type Moves } from "../../walk";

type Groups = ReadonlyMap<string, ReadonlySet<string>>;

export const MOVES: Moves = { i: ["", "attempt"], f: ["fused:", "fused"], p: ["later:", "put off"], r: ["refused:", "refused"], c: ["/", "breakpoint"] };

/** For each operation that is in one kernel with others those, after each attempt. The same map changes. */
function* replayed(tried: readonly FusionData[]): Generator<Groups> {
  const groups = new Map<string, ReadonlySet<string>>();
  for (const { first, second, ok, later } of tried) {
    if (ok && !later) {
      const joined = new Set([first, second].flatMap(id => [...(groups.get(id) ?? [id])]));
      for (const id of joined) groups.set(id, joined);
    }
    yield groups;
  }
}

/** The operations that were together after an attempt. */
export function kernelsAt(tried: readonly FusionData[], at: number): string[][] {
  let groups: Groups = new Map();
  for (groups of replayed(tried.slice(0, at + 1)));
  return [...new Set(groups.values())].map(each => [...each]);
}

export function outcome({ ok, later }: FusionData): "later" | "fused" | "refused" {
  return later ? "later" : ok ? "fused" : "refused";
}

export function find(tried: readonly FusionData[], query: string): number[] | string {
  let at = -1;
  let groups: Groups;
  const row = () => tried[at]!;
  const because = () => [`${row().why.title}: ${row().why.detail ?? ""} [${row().why.code}]`];
  const came = (what: string) => () => (outcome(row()) === what ? because() : []);
  const facts: Facts = {
    because, operation: () => [row().first, row().second], fused: came("fused"), later: came("later"), refused: came("refused"),
    kernel: () => [row().first, row().second].flatMap(id => [...(groups.get(id) ?? [])].join(" ") || []), step: () => [at], saves: () => [row().score ?? 0],
  };
  return found(query, facts, function* () {
    for (groups of replayed(tried)) {
      at++;
      yield;
    }
  }());
}
