// Layers that are alike: the same operations on the same types in the same order, called with the same arguments and
// wired in the same way. Compared in full, in every state of the graph.

import type { Family, GraphState, StateNode } from "./family";
import { entry } from "../../collections";

interface Members {
  readonly label: string;
  readonly vertices: readonly number[];
}

export function Signatures(family: Family, moduleOf: (index: number) => string) {
  const found = new Map<Members, string>();

  function of(group: Members): string {
    return entry(found, group, () => [...family.states.values()].map(state => written(group, state)).join("\n\n"));
  }

  function written(group: Members, state: GraphState): string {
    const members = group.vertices.filter(vertex => state.nodes.has(vertex));
    const inside = new Map(members.map((vertex, n) => [vertex, n]));
    const outside = new Map<number, number>();
    const stem = members.reduce<string | null>((found, vertex) => common(found, moduleOf(vertex)), null) ?? "";
    return members.map(vertex => {
      const node = state.nodes.get(vertex)!;
      const inputs = node.sources.map(source => {
        const own = inside.get(source);
        if (own !== undefined) return `i${own}`;
        const data = state.nodes.get(source)!.data;
        const number = entry(outside, source, () => outside.size);
        return `o${number} ${data.op === "placeholder" ? "input" : "value"} ${data.type}`;
      });
      const { op, target, type } = node.data;
      return JSON.stringify([
        op, op.startsWith("call") ? target : "", type, moduleOf(vertex).slice(stem.length), inputs, node.missing.length,
        node.users.some(user => !inside.has(user)), state.outputs.has(vertex), argumentsOf(node, state),
      ]);
    }).join("\n");
  }

  return { of };
}

export type Signatures = ReturnType<typeof Signatures>;

/** The call with the names of nodes left out: what remains are constants. */
function argumentsOf(node: StateNode, state: GraphState): string {
  const names = new Set([node.data.name, ...node.sources.map(source => state.nodes.get(source)!.data.name)]);
  return node.call.replace(/[A-Za-z_]\w*/g, word => (names.has(word) ? "_" : word));
}

function common(one: string | null, other: string): string {
  if (one === null) return other;
  let n = 0;
  while (n < one.length && one[n] === other[n]) n++;
  return one.slice(0, n);
}

/** Runs of at least `least` neighbors that count up and are alike. */
export function alike<G extends Members>(groups: readonly G[], signatures: Signatures, least: number): G[][] {
  const runs: G[][] = [];
  let run: G[] = [];
  const close = () => {
    if (run.length >= least) runs.push(run);
    run = [];
  };
  for (const group of groups) {
    const last = run[run.length - 1];
    const similar = last && stem(last.label) === stem(group.label) && last.vertices.length === group.vertices.length;
    if (last && !(similar && signatures.of(last) === signatures.of(group))) close();
    run.push(group);
  }
  close();
  return runs;
}

const stem = (label: string): string => label.replace(/\d+/g, "#");
