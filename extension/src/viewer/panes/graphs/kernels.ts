// In which kernels and library calls a node ended, and how long those take.

import { entry, own } from "../../collections";
import type { CompileData, HalfData } from "../../record";
import type { GraphKind } from "./views";

/** A kernel or library call of a half's schedule. */
export interface Home {
  /** Unique among both halves. */
  readonly key: string;
  readonly id: string;
  readonly half: string;
  readonly kind: "kernel" | "extern";
  /** The kernel's function, or the library's. */
  readonly name: string;
  /** One launch, where it was timed. */
  readonly seconds: number | null;
  /** Its place in the schedules of all halves, one after the other. */
  readonly order: number;
}

export interface Handling {
  /** "kernel", "extern", "view", "constant", "unused"; "" for a captured node, which became ATen nodes first. */
  readonly kind: string;
  readonly homes: readonly Home[];
}

export function Kernels(compile: CompileData) {
  /** The ATen nodes made from each captured node. */
  const madeOf = new Map<string, Set<string>>();
  const all = (compile.halves ?? []).map(halfOf);
  const found = all.flatMap(half => half.homes);
  const homes = found.map((home, order) => ({ ...home, order }));
  const byKey = new Map(homes.map(home => [home.key, home]));
  for (const half of all) {
    for (const [id, became] of half.nodes)
      half.nodes.set(id, { ...became, homes: became.homes.map(each => byKey.get(each.key)!) });
  }
  for (const stage of compile.stages ?? []) {
    for (const node of stage.graph?.nodes ?? []) {
      for (const origin of node.origins) entry(madeOf, origin, () => new Set()).add(node.id);
    }
  }

  /** What became of a node of a view of this kind; undefined where the record does not say. */
  function of(id: string, kind: GraphKind): Handling | undefined {
    if (kind === "eager") return undefined;
    const halves = all.filter(half => half.backward ? kind === "backward" || kind === "joint" : kind !== "backward");
    if (kind === "captured") return captured(id, halves);
    for (const half of halves) {
      const found = half.nodes.get(id);
      if (found) return found;
    }
    return undefined;
  }

  function captured(id: string, halves: readonly Half[]): Handling | undefined {
    const homes = new Map<string, Home>();
    for (const made of madeOf.get(id) ?? []) {
      for (const half of halves) for (const home of half.nodes.get(made)?.homes ?? []) homes.set(home.key, home);
    }
    return homes.size ? { kind: "", homes: [...homes.values()].sort((a, b) => a.order - b.order) } : undefined;
  }

  return { homes, of };
}

export type Kernels = ReturnType<typeof Kernels>;

interface Half {
  readonly backward: boolean;
  readonly homes: readonly Home[];
  readonly nodes: Map<string, Handling>;
}

function halfOf(half: HalfData): Half {
  const kernels = new Map((half.kernels ?? []).map(kernel => [kernel.id, kernel]));
  const targets = new Map((half.operations ?? []).map(operation => [operation.id, operation.target]));
  const runs = new Map<string, Home[]>();
  const homes = (half.schedule?.items ?? []).map((item, order): Home => {
    const kind = item.kind === "extern" ? "extern" : "kernel";
    const seconds = (kind === "kernel" ? kernels.get(item.id)?.seconds : own(half.extern_seconds, item.id)) ?? null;
    const name = kernels.get(item.id)?.function ?? targets.get(item.operations[0] ?? "") ?? item.id;
    const home = { key: `${half.name}/${item.id}`, id: item.id, half: half.name, kind, name, seconds, order } as const;
    for (const operation of item.operations) entry(runs, operation, () => []).push(home);
    return home;
  });
  const nodes = new Map<string, Handling>();
  for (const [id, [kind, operations]] of Object.entries(half.nodes ?? {})) {
    const found = new Map(operations.flatMap(operation => runs.get(operation) ?? []).map(home => [home.key, home]));
    nodes.set(id, { kind, homes: [...found.values()].sort((a, b) => a.order - b.order) });
  }
  return { backward: half.name.endsWith("backward"), homes, nodes };
}
