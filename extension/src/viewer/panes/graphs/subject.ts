// One family of graphs with all that is known of its nodes: what a drawing, a table and a text are made of.

import { entry } from "../../collections";
import type { CompileData, SavedData } from "../../record";
import { Signatures } from "./alike";
import { homesOf, modulesOf } from "./belonging";
import { familyOf, type Family, type GraphState, changesOf, type Sign } from "./family";
import { type Group, grouped, type Grouping, groupsIn, type Item } from "./groups";
import { type Home, Kernels } from "./kernels";
import { sizes } from "./look";
import { firstOpen } from "./openness";
import { type Memo, place, type Placement } from "./place";
import type { GraphKind, GraphView } from "./views";

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
      () => (view.before ? changesOf(this.#whole(view.before), this.#whole(view)) : new Map()));
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

export type Openings = ReturnType<typeof Openings>;
