// One family of graphs with all that is known of its nodes, which is what a drawing, a table and a text are made of:
// the module and the kernel that each is drawn in, and which groups are open.

import { entry, sum } from "../../collections";
import type { CompileData, SavedData, NodeData } from "../../record";
import { Signatures, type Group, grouped, type Grouping, groupsIn, type Item, around, segments } from "./groups";
import { familyOf, type Family, type GraphState, type Vertex } from "./family";
import { type Home, Kernels } from "./kernels";
import { sizes } from "./look";
import { type Memo, place, type Placement } from "./place";
import type { GraphKind, GraphView } from "./views";
import { syntheticReason } from "../../element";
import { changesOf, type Sign } from "../../stages";

export class Subject {
  /** The step of capture that the states are shown as of; -1 for none. */
  step = -1;
  readonly family: Family;
  readonly modules: readonly string[];
  readonly homes: readonly (Home | undefined)[];
  readonly #kind: GraphKind;
  readonly #groups = new Map<Grouping, Group>();
  readonly #memo: Memo = new Map();
  readonly #sizeOf: ReturnType<typeof sizes>;
  readonly #changes = new Map<string, ReadonlyMap<number, Sign>>();

  constructor(readonly compile: CompileData, views: readonly GraphView[], readonly kernels: Kernels,
      moduleOfOrigin: (id: string) => string) {
    this.#kind = views[0]!.kind;
    this.family = familyOf(views);
    this.modules = modulesOf(this.family, moduleOfOrigin);
    this.homes = homesOf(this.family, kernels, this.#kind);
    this.#sizeOf = sizes(this.family, n => this.modules[n]!);
  }

  state(view: GraphView): GraphState {
    const whole = this.#whole(view);
    const { step, compile: { made = {} } } = this;
    if (step < 0) return whole;
    const nodes = new Map([...whole.nodes].filter(([, { data }]) => (made[data.id] ?? -1) <= step));
    for (const [vertex, node] of nodes)
      nodes.set(vertex, { ...node, users: node.users.filter(user => nodes.has(user)) });
    return { view, nodes, outputs: new Map() };
  }

  #whole(view: GraphView): GraphState {
    return this.family.states.get(view.id)!;
  }

  /** What the pass before a view did; nothing where there is no view before. */
  changesOf(view: GraphView): ReadonlyMap<number, Sign> {
    return entry(this.#changes, view.id,
      () => (view.before ? changesOf(this.#whole(view.before).nodes, this.#whole(view).nodes) : new Map()));
  }

  root(wanted: Grouping): Group {
    const by = wanted === "module" && !this.modules.some(Boolean) ? "kernel" : wanted;
    return entry(this.#groups, by, () => grouped(this.family, {
      by, sides: this.#kind === "joint", moduleOf: vertex => this.modules[vertex.index]!,
      homeOf: vertex => this.homes[vertex.index],
      signatures: Signatures(this.family, n => this.modules[n]!),
    }));
  }

  /** The open groups by their ids; the ones to begin with where none are given. */
  open(by: Grouping, ids: ReadonlySet<string> | undefined): Set<Group> {
    const root = this.root(by);
    return ids ? new Set([...groupsIn(root)].filter(group => ids.has(group.id))) : firstOpen(root);
  }

  placement(by: Grouping, open: ReadonlySet<Group>): Placement {
    const { vertices } = this.family;
    return place({
      root: this.root(by), sourcesOf: vertex => vertices[vertex]!.sources, isOpen: group => open.has(group),
      sizeOf: this.#sizeOf,
      isLight: item => item.kind === "leaf" && /^(placeholder|get_attr)$/.test(vertices[item.vertex]!.data.op),
    }, this.#memo);
  }

  /** The leaf or group that stands for an id: a node's, or a kernel's where nodes are grouped by kernel. */
  find(by: Grouping, id: string): Item | undefined {
    const vertex = this.family.vertices.find(each => each.data.id === id);
    const stack: Item[] = [this.root(by)];
    for (let item = stack.pop(); item; item = stack.pop()) {
      if (item.kind === "leaf") {
        if (item.vertex === vertex?.index) return item;
      } else if (item.home?.id === id) {
        return item;
      } else {
        stack.push(...item.children);
      }
    }
    return undefined;
  }
}

/** What is kept for the backward and what is computed again, by node id. */
export function savedBy(compile: CompileData): ReadonlyMap<string, SavedData> {
  return new Map((compile.saved ?? []).map(saved => [saved.id, saved]));
}

/** Which groups are open, remembered by compile, family and grouping while the pane is there. */
export function Openings() {
  const ids = new Map<string, ReadonlySet<string>>();
  /** What sets of open groups are told apart by. */
  const name = (subject: Subject, view: GraphView, by: Grouping): string =>
    `${subject.compile.id} ${view.family} ${by}`;

  function of(subject: Subject, view: GraphView, by: Grouping): Set<Group> {
    return subject.open(by, ids.get(name(subject, view, by)));
  }

  function set(subject: Subject, view: GraphView, by: Grouping, open: ReadonlySet<Group>): void {
    ids.set(name(subject, view, by), new Set([...open].map(group => group.id)));
  }

  return { name, of, set };
}

/** What a graph opens with at most, and what it shows at most. */
const FIRST = 16;
export const MOST = 300;

/** The groups to open at first: outer before inner ones, and of one group's children all or none, as long as the
 * picture stays small. */
export function firstOpen(root: Group, budget = FIRST): Set<Group> {
  const open = new Set<Group>();
  let shown = root.children.length;
  let ring: Group[] = [root];
  while (ring.length) {
    const next: Group[] = [];
    for (const parent of ring) {
      const inner = parent.children.filter((child): child is Group => child.kind !== "leaf" && child.kind !== "alike");
      const more = sum(inner, child => child.children.length - 1);
      if (shown + more > budget && !inner.some(child => child.kind === "side")) continue;
      shown += more;
      inner.forEach(child => open.add(child));
      next.push(...inner);
    }
    ring = next;
  }
  return open;
}

/** How many boxes show, frames aside. */
export function shownCount(root: Group, open: ReadonlySet<Group>): number {
  let total = 0;
  const stack: Item[] = [...root.children];
  for (let item = stack.pop(); item; item = stack.pop()) {
    if (item.kind !== "leaf" && open.has(item)) stack.push(...item.children);
    else total++;
  }
  return total;
}

/** `open` with `group` and all around it opened as well; what was opened longest ago closes where it would be too
 * much. */
export function opening(root: Group, open: ReadonlySet<Group>, group: Item): { open: Set<Group>; closed: Group[] } {
  const wanted = [...around(group), ...(group.kind === "leaf" ? [] : [group])];
  const next = new Set([...open].filter(each => !wanted.includes(each)));
  for (const each of wanted) if (each.parent) next.add(each);
  const closed: Group[] = [];
  const keep = new Set<Group>(wanted);
  for (const each of [...next]) {
    if (shownCount(root, next) <= MOST) break;
    if (keep.has(each) || each.kind === "side" || [...groupsIn(each)].some(inner => keep.has(inner))) continue;
    next.delete(each);
    closed.push(each);
  }
  return { open: next, closed };
}

/** All groups open, as far as the picture stays within its bounds. */
export const allOpen = (root: Group): Set<Group> => firstOpen(root, MOST);

/** The module of each node, by index. `moduleOfOrigin` helps where nodes carry no module (eager's autograd graph). */
function modulesOf(family: Family, moduleOfOrigin: (id: string) => string): string[] {
  const users = usersOf(family);
  const own = family.vertices.map(
    ({ data }) => data.module || (data.op === "grad_fn" ? commonPath(data.origins.map(moduleOfOrigin)) : ""));
  for (const { index, data, backward, sources } of family.vertices) {
    if (own[index] || !isSynthetic(data)) continue;
    const pathOf = (near: readonly number[]) => {
      const known = near.map(each => family.vertices[each]!)
        .filter(each => each.backward === backward && (own[each.index] || !isSynthetic(each.data)));
      return commonPath(known.map(each => own[each.index]!));
    };
    const [all, last] = [pathOf(sources), pathOf([...sources.slice(-1), ...users[index]!.slice(0, 1)])];
    own[index] = all.length > last.length ? all : last;
  }
  return family.vertices.map((vertex, n) => {
    if (own[n] || !isInput(vertex)) return own[n]!;
    const readers =
      users[n]!.filter(user => family.vertices[user]!.backward === vertex.backward && !isInput(family.vertices[user]!));
    return commonPath(readers.map(user => own[user]!));
  });
}

/** Whether no source line caused a node: a sum of gradients, say. */
function isSynthetic({ op, origins }: NodeData): boolean {
  return op.startsWith("call") && origins.length > 0 && origins.every(origin => syntheticReason(origin) !== null);
}

const isInput = ({ data }: Vertex): boolean => data.op === "placeholder" || data.op === "get_attr";

/** The innermost module that holds all of `paths`. */
function commonPath(paths: readonly string[]): string {
  const [first, ...rest] = paths.map(segments);
  if (!first) return "";
  let length = first.length;
  for (const path of rest) {
    let n = 0;
    while (n < length && n < path.length && path[n] === first[n]) n++;
    length = n;
  }
  return first.slice(0, length).join(".");
}

/** The kernel of each node, by index: the first that it ended in, or the one kernel that reads it. */
function homesOf(family: Family, kernels: Kernels, kind: GraphKind): (Home | undefined)[] {
  const users = usersOf(family);
  const found = family.vertices.map(({ data }) => {
    const homes = kernels.of(data.id, kind)?.homes ?? [];
    return kind === "captured" && homes.length > 1 ? undefined : homes[0];
  });
  for (let n = family.vertices.length - 1; n >= 0; n--) {
    const vertex = family.vertices[n]!;
    if (found[n] || isInput(vertex)) continue;
    const readers = users[n]!.map(user => found[user]);
    const [first] = readers;
    const sameSide = users[n]!.every(user => family.vertices[user]!.backward === vertex.backward);
    if (first && sameSide && readers.every(home => home?.key === first.key)) found[n] = first;
  }
  return found;
}

function usersOf(family: Family): number[][] {
  const users: number[][] = family.vertices.map(() => []);
  for (const { index, sources } of family.vertices) for (const source of sources) users[source]!.push(index);
  return users;
}
