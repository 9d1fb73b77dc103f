// Nodes in groups, groups in groups: by module, or by the kernel that they ended in. What is too much for one picture
// is cut into parts; layers that are alike are folded into one box; a module that is called again further down is a
// group for each call, since one box would make a cycle of a graph that has none.

import type { Family, Vertex, GraphState, StateNode } from "./family";
import type { Home } from "./kernels";
import { entry } from "../../collections";

export type Grouping = "module" | "kernel" | "none";

export interface Leaf {
  readonly kind: "leaf";
  readonly id: string;
  readonly parent: Group;
  readonly vertex: number;
}

export interface Group {
  /** "side": forward or backward; "alike": a run of layers that are alike; "part": some of too many. */
  readonly kind: "root" | "side" | "module" | "kernel" | "alike" | "part";
  readonly id: string;
  readonly label: string;
  readonly parent: Group | null;
  readonly children: readonly Item[];
  /** All nodes in it and below, in the order of the graph. */
  readonly vertices: readonly number[];
  readonly home?: Home;
}

export type Item = Leaf | Group;

/** More children than this are cut into parts. */
const MOST_CHILDREN = 400;
const PART = 100;
const LEAST_ALIKE = 3;
const MOST_STEPS = 60;

interface Ways {
  readonly by: Grouping;
  /** Whether forward and backward are groups of their own. */
  readonly sides: boolean;
  /** The module of a node, as a path. */
  readonly moduleOf: (vertex: Vertex) => string;
  /** The kernel or library call that a node ended in. */
  readonly homeOf: (vertex: Vertex) => Home | undefined;
  readonly signatures: Signatures;
}

interface GroupKey {
  readonly label: string;
  readonly kind: "side" | "module" | "kernel";
  readonly home?: Home;
}

/** Nodes that stand together in a group: under a key, or one by itself. */
interface Cluster {
  readonly key: GroupKey | null;
  readonly vertices: number[];
}

/** The whole graph as one group. */
export function grouped(family: Family, ways: Ways): Group {
  const keys = family.vertices.map(vertex => keysOf(vertex, ways));
  const root: Draft =
    { kind: "root", id: "", label: "", parent: null, children: [], vertices: family.vertices.map((_, n) => n) };
  new Builder(family, ways, keys).fill(root, 0);
  return root;
}

type Draft = { -readonly [name in keyof Group]: Group[name] } & { children: Item[]; vertices: number[] };

function keysOf(vertex: Vertex, ways: Ways): GroupKey[] {
  const sides: GroupKey[] = ways.sides ? [{ label: vertex.backward ? "backward" : "forward", kind: "side" }] : [];
  if (ways.by === "module")
    return [...sides, ...segments(ways.moduleOf(vertex)).map((label): GroupKey => ({ label, kind: "module" }))];
  if (ways.by === "none") return [];
  const home = ways.homeOf(vertex);
  return home ? [...sides, { label: home.id, kind: "kernel", home }] : sides;
}

/** The steps of a module's path; a number stays with the list that it counts in ("h.0"). Beyond a depth that no program
 * has, steps are left out. */
export function segments(path: string): string[] {
  const found: string[] = [];
  for (const part of path.split(".", MOST_STEPS)) {
    if (/^\d+$/.test(part) && found.length) found[found.length - 1] += `.${part}`;
    else if (part) found.push(part);
  }
  return found;
}

class Builder {
  readonly #family: Family;
  readonly #ways: Ways;
  readonly #keys: readonly (readonly GroupKey[])[];

  constructor(family: Family, ways: Ways, keys: readonly (readonly GroupKey[])[]) {
    this.#family = family;
    this.#ways = ways;
    this.#keys = keys;
  }

  readonly #sourcesOf = (vertex: number) => this.#family.vertices[vertex]!.sources;

  /** Gives a group its children, from the key at `depth` of its nodes on. */
  fill(group: Draft, depth: number): void {
    const parts: Cluster[] = [];
    const byKey = new Map<string, number[]>();
    for (const vertex of group.vertices) {
      const key = this.#keys[vertex]![depth];
      const name = key && `${key.kind} ${key.home?.key ?? key.label}`;
      const found = name === undefined ? undefined : byKey.get(name);
      if (found) {
        found.push(vertex);
        continue;
      }
      const vertices = [vertex];
      if (name !== undefined) byKey.set(name, vertices);
      parts.push({ key: key ?? null, vertices });
    }
    const made = this.#acyclic(this.#absorbed(parts)).map(({ key, vertices, visit }): Item => {
      if (!key || (vertices.length === 1 && key.kind === "module")) return this.#leaf(group, vertices[0]!);
      const name = `${key.home?.key ?? key.label}${visit > 1 ? `#${visit}` : ""}`;
      const child = this.#group(group, key.kind, name, key.label, vertices, key.home);
      this.fill(child, depth + 1);
      joined(child);
      if (visit > 1) child.label += ` (${visit})`;
      return child;
    });
    group.children = this.#cut(group, this.#folded(group, made));
  }

  /** Kernels with what lies between their own nodes and is in none: a view of what one node writes, which another
   * reads. */
  #absorbed(parts: readonly Cluster[]): Cluster[] {
    const holder = new Map<number, Cluster>();
    const gone = new Set<Cluster>();
    for (const cycle of onCycles(parts.map(part => part.vertices), this.#sourcesOf)) {
      const members = [...cycle].map(n => parts[n]!).sort((a, b) => a.vertices[0]! - b.vertices[0]!);
      for (const part of members) if (part.key?.kind === "kernel")
        part.vertices.forEach(vertex => holder.set(vertex, part));
      for (const part of members) {
        const kernel = part.key ? undefined
          : this.#sourcesOf(part.vertices[0]!).map(source => holder.get(source)).find(each => each !== undefined);
        if (!kernel) continue;
        kernel.vertices.push(...part.vertices);
        part.vertices.forEach(vertex => holder.set(vertex, kernel));
        gone.add(part);
      }
    }
    for (const part of new Set(holder.values())) part.vertices.sort((a, b) => a - b);
    return parts.filter(part => !gone.has(part));
  }

  /** Module groups on a cycle cut into the visits to the module: its calls, or its part in what is computed again. */
  #acyclic(parts: readonly Cluster[]): (Cluster & { visit: number })[] {
    const cut = new Map<number, number[][]>();
    for (const cycle of onCycles(parts.map(part => part.vertices), this.#sourcesOf)) {
      const around = [...cycle].flatMap(n => parts[n]!.vertices).sort((a, b) => a - b);
      for (const n of cycle) {
        if (parts[n]!.key?.kind === "module") cut.set(n, visits(parts[n]!.vertices, around, this.#sourcesOf));
      }
    }
    const made = parts.flatMap(({ key, vertices }, n) =>
      (cut.get(n) ?? [vertices]).map((some, n) => ({ key, vertices: some, visit: n + 1 })),
    );
    return made.sort((a, b) => a.vertices[0]! - b.vertices[0]!);
  }

  /** Runs of groups that are alike, each as one group of them. */
  #folded(group: Draft, children: readonly Item[]): Item[] {
    const runs = alike(children.filter((child): child is Group => child.kind === "module"), this.#ways.signatures,
      LEAST_ALIKE);
    let kept = [...children];
    for (const run of runs) {
      const first = run[0]!;
      const label = `${first.label} – ${run[run.length - 1]!.label}`;
      const fold = this.#group(group, "alike", `${first.label}+${run.length}`, label,
        run.flatMap(each => each.vertices).sort((a, b) => a - b));
      const members = new Set<Item>(run);
      const next = kept.flatMap(child => (child === first ? [fold] : members.has(child) ? [] : [child]));
      const at = next.indexOf(fold);
      if (onCycles(next.map(verticesOf), this.#sourcesOf).some(cycle => cycle.has(at))) continue;
      fold.children = run.map(each => moved(each, fold));
      kept = next;
    }
    return kept;
  }

  /** Too many children in parts: by kernel first, then in the order of the graph. */
  #cut(group: Draft, children: readonly Item[]): Item[] {
    if (children.length <= MOST_CHILDREN) return [...children];
    const byKernel = group.kind === "part" || this.#ways.by === "none" ? [] : this.#kernelParts(group, children);
    if (byKernel.length > 1 && byKernel.length < children.length) return this.#cut(group, byKernel);
    const size = Math.max(PART, Math.ceil(children.length / MOST_CHILDREN));
    const parts: Item[] = [];
    for (let start = 0; start < children.length; start += size) {
      const some = children.slice(start, start + size);
      const vertices = some.flatMap(verticesOf).sort((a, b) => a - b);
      const part = this.#group(group, "part", `part ${start} of ${children.length}`,
        `${this.#nameOf(some[0]!)} … ${this.#nameOf(some[some.length - 1]!)}`, vertices);
      part.children = some.map(each => moved(each, part));
      parts.push(part);
    }
    return this.#cut(group, parts);
  }

  /** The leaves among `children` by kernel, where that makes no cycle. */
  #kernelParts(group: Draft, children: readonly Item[]): Item[] {
    const lists = new Map<string, Leaf[]>();
    for (const child of children) {
      const home = child.kind === "leaf" ? this.#ways.homeOf(this.#family.vertices[child.vertex]!) : undefined;
      if (!home || child.kind !== "leaf") continue;
      entry(lists, home.key, () => []).push(child);
    }
    const several = [...lists].filter(([, list]) => list.length > 1);
    const taken = new Set(several.flatMap(([, list]) => list as Item[]));
    const rest = children.filter(child => !taken.has(child));
    const parts = [...rest.map(verticesOf), ...several.map(([, list]) => list.map(leaf => leaf.vertex))];
    if (onCycles(parts, this.#sourcesOf).length) return [];
    const made = several.map(([key, list]): Item => {
      const home = this.#ways.homeOf(this.#family.vertices[list[0]!.vertex]!);
      const part = this.#group(group, "kernel", key, home?.id ?? key, list.map(leaf => leaf.vertex), home);
      part.children = list.map(leaf => moved(leaf, part));
      return part;
    });
    return [...rest, ...made].sort((a, b) => verticesOf(a)[0]! - verticesOf(b)[0]!);
  }

  #nameOf(item: Item): string {
    return item.kind === "leaf" ? this.#family.vertices[item.vertex]!.data.name : item.label.split(" … ")[0]!;
  }

  #leaf(parent: Group, vertex: number): Leaf {
    return { kind: "leaf", id: this.#family.vertices[vertex]!.key, parent, vertex };
  }

  #group(parent: Group, kind: Group["kind"], name: string, label: string, vertices: number[], home?: Home): Draft {
    return { kind, id: `${parent.id}/${name}`, label, parent, children: [], vertices, home };
  }
}

/** Makes a group that holds but one group one with it. */
function joined(group: Draft): void {
  const [only] = group.children;
  if (group.kind !== "module" || group.children.length !== 1 || only?.kind !== "module") return;
  group.label = `${group.label}.${only.label}`;
  group.children = only.children.map(child => moved(child, group));
}

function moved(item: Item, parent: Group): Item {
  (item as { parent: Group }).parent = parent;
  return item;
}

export const verticesOf = (item: Item): readonly number[] => (item.kind === "leaf" ? [item.vertex] : item.vertices);

/** All groups below, outer ones first. */
export function* groupsIn(group: Group): Iterable<Group> {
  for (const child of group.children) {
    if (child.kind === "leaf") continue;
    yield child;
    yield* groupsIn(child);
  }
}

/** The groups around an item, innermost first, without the root. */
export function around(item: Item): Group[] {
  const found: Group[] = [];
  for (let at = item.parent; at?.parent; at = at.parent) found.push(at);
  return found;
}

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
function alike<G extends Members>(groups: readonly G[], signatures: Signatures, least: number): G[][] {
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

/** Strongly connected components (Tarjan, 1972), as the component of each vertex. */
function components(out: readonly (readonly number[])[]): Int32Array {
  const count = out.length;
  const component = new Int32Array(count).fill(-1);
  const number = new Int32Array(count).fill(-1);
  const low = new Int32Array(count);
  const stack: number[] = [];
  let numbered = 0;
  let found = 0;
  for (let start = 0; start < count; start++) {
    if (number[start] !== -1) continue;
    const path = [{ at: start, next: 0 }];
    number[start] = low[start] = numbered++;
    stack.push(start);
    for (let top = path[path.length - 1]; top; top = path[path.length - 1]) {
      const { at } = top;
      const next = out[at]![top.next++];
      if (next !== undefined) {
        if (number[next] === -1) {
          number[next] = low[next] = numbered++;
          stack.push(next);
          path.push({ at: next, next: 0 });
        } else if (component[next] === -1) {
          low[at] = Math.min(low[at]!, number[next]!);
        }
        continue;
      }
      path.pop();
      const parent = path[path.length - 1];
      if (parent) low[parent.at] = Math.min(low[parent.at]!, low[at]!);
      if (low[at] !== number[at]) continue;
      for (let member = stack.pop(); member !== undefined; member = stack.pop()) {
        component[member] = found;
        if (member === at) break;
      }
      found++;
    }
  }
  return component;
}

/** Parts of a list of vertices, by what each belongs to; the edges between parts. */
function quotient(parts: readonly (readonly number[])[],
    sourcesOf: (vertex: number) => readonly number[]): number[][] {
  const part = new Map<number, number>();
  parts.forEach((members, n) => members.forEach(vertex => part.set(vertex, n)));
  const out: Set<number>[] = parts.map(() => new Set());
  parts.forEach((members, n) => {
    for (const vertex of members) {
      for (const source of sourcesOf(vertex)) {
        const from = part.get(source);
        if (from !== undefined && from !== n) out[from]!.add(n);
      }
    }
  });
  return out.map(list => [...list]);
}

/** The parts of `parts` that are on a cycle of parts. */
function onCycles(parts: readonly (readonly number[])[],
    sourcesOf: (vertex: number) => readonly number[]): Set<number>[] {
  const component = components(quotient(parts, sourcesOf));
  const members = new Map<number, Set<number>>();
  component.forEach((which, n) => entry(members, which, () => new Set()).add(n));
  return [...members.values()].filter(list => list.size > 1);
}

/** A part cut into its visits: the vertices that no path through the rest leads to, those that one path out and in
 * again leads to, and so on. `around` are all vertices on the cycle, in the order of the graph. */
function visits(part: readonly number[], around: readonly number[],
    sourcesOf: (vertex: number) => readonly number[]): number[][] {
  const inside = new Set(part);
  const on = new Set(around);
  const left = new Map<number, number>(); // for a vertex outside: the last visit that leads to it
  const visit = new Map<number, number>();
  for (const vertex of around) {
    let most = inside.has(vertex) ? 0 : -1;
    for (const source of sourcesOf(vertex)) {
      if (!on.has(source)) continue;
      const came = inside.has(source) ? (visit.get(source) ?? -1) : (left.get(source) ?? -1);
      const again = inside.has(vertex) && !inside.has(source) && came >= 0 ? 1 : 0;
      most = Math.max(most, came + again);
    }
    (inside.has(vertex) ? visit : left).set(vertex, most);
  }
  const found: number[][] = [];
  for (const vertex of part) (found[visit.get(vertex) ?? 0] ??= []).push(vertex);
  return found.filter(list => list !== undefined);
}
