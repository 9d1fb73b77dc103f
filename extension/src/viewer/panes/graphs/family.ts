// The states of one graph laid over each other: each node once, whatever states it is in. Layout and groups are made
// from this, so that nothing moves when one walks from pass to pass.

import { entry } from "../../collections";
import type { NodeData } from "../../record";
import { callsOf, keysOf, type NodeCall } from "../../stages";
import { isTangent, type GraphView } from "./views";

export interface Vertex {
  readonly index: number;
  /** Its id, unique here. */
  readonly key: string;
  /** As in the last state that has it. */
  readonly data: NodeData;
  /** What it reads in any state. */
  readonly sources: readonly number[];
  /** Whether a gradient from outside flows into it, or it is there for such nodes alone. */
  readonly backward: boolean;
}

/** One state of the graph. */
export interface GraphState {
  readonly view: GraphView;
  readonly nodes: ReadonlyMap<number, StateNode>;
  readonly outputs: ReadonlyMap<number, readonly number[]>;
}

export interface StateNode extends NodeCall {
  readonly sources: readonly number[];
  /** Inputs that are no nodes of this state. */
  readonly missing: readonly string[];
  readonly users: readonly number[];
}

export interface Family {
  readonly vertices: readonly Vertex[];
  readonly states: ReadonlyMap<string, GraphState>;
}

export function familyOf(views: readonly GraphView[]): Family {
  const order = new Order();
  const keyed = views.map(view => keysOf(view.graph.nodes));
  for (const keys of keyed) order.merge(keys);
  const index = new Map([...order].map((key, n) => [key, n]));
  const last = new Map<number, NodeData>();
  const sources: Set<number>[] = [...index].map(() => new Set());
  const states = new Map<string, GraphState>();
  views.forEach((view, n) => {
    const state = stateOf(view, keyed[n]!, index);
    states.set(view.id, state);
    for (const [at, node] of state.nodes) {
      last.set(at, node.data);
      for (const source of node.sources) sources[at]!.add(source);
    }
  });
  const results = new Set([...states.values()].flatMap(state => [...state.outputs.keys()]));
  const tangents = [...last].filter(([, node]) => isTangent(node)).map(([at]) => at);
  const backward = backwardOf(sources, tangents, at => results.has(at) || last.get(at)!.op === "placeholder");
  const vertices = [...index].map(([key, at]) => ({
    index: at, key, data: last.get(at)!, sources: [...sources[at]!].sort((a, b) => a - b), backward: backward.has(at),
  }));
  return { vertices, states };
}

/** A list in which each new key stands behind the one that came before it in its own list. */
class Order implements Iterable<string> {
  readonly #next = new Map<string | null, string | null>([[null, null]]);

  merge(keys: readonly string[]): void {
    let before: string | null = null;
    for (const key of keys) {
      if (!this.#next.has(key)) {
        this.#next.set(key, this.#next.get(before) ?? null);
        this.#next.set(before, key);
      }
      before = key;
    }
  }

  *[Symbol.iterator](): Iterator<string> {
    for (let at = this.#next.get(null) ?? null; at !== null; at = this.#next.get(at) ?? null) yield at;
  }
}

function stateOf(view: GraphView, keys: readonly string[], index: ReadonlyMap<string, number>): GraphState {
  const calls = callsOf(view.lines);
  const here = new Set(keys);
  const users = new Map<number, number[]>();
  const nodes = new Map<number, StateNode>();
  view.graph.nodes.forEach((data, n) => {
    const at = index.get(keys[n]!)!;
    const found = data.inputs.filter(id => here.has(id)).map(id => index.get(id)!);
    const missing = data.inputs.filter(id => !here.has(id));
    const sources = [...new Set(found)];
    for (const source of sources) entry(users, source, () => []).push(at);
    nodes.set(at, { data, sources, missing, users: [], call: calls.get(data.id) ?? "" });
  });
  for (const [at, list] of users) nodes.set(at, { ...nodes.get(at)!, users: list });
  const outputs = new Map<number, number[]>();
  view.graph.outputs.forEach((id, position) => {
    if (here.has(id)) entry(outputs, index.get(id)!, () => []).push(position);
  });
  return { view, nodes, outputs };
}

/** What gradients from outside flow into, and what is read by nothing else. */
function backwardOf(sources: readonly ReadonlySet<number>[], tangents: readonly number[],
    stays: (at: number) => boolean): Set<number> {
  if (tangents.length === 0) return new Set();
  const users: number[][] = sources.map(() => []);
  sources.forEach((list, at) => list.forEach(source => users[source]!.push(at)));
  const reached = new Set(tangents);
  for (const at of reached) for (const user of users[at]!) reached.add(user);
  for (let at = sources.length - 1; at >= 0; at--) {
    if (!stays(at) && users[at]!.length && users[at]!.every(user => reached.has(user))) reached.add(at);
  }
  return reached;
}

/** What of a node a pass changed, as "WHAT: BEFORE → AFTER". */
export function differences(before: StateNode, after: StateNode): string[] {
  const fields: readonly (readonly [name: string, of: (node: StateNode) => string])[] = [
    ["operation", node => `${node.data.op} ${node.data.target}`],
    ["type", node => node.data.type],
    ["inputs", node => node.data.inputs.join(", ")],
    ["call", node => node.call],
    ["note", node => node.data.about ?? ""],
  ];
  const found =
    fields.filter(([, of]) => of(before) !== of(after)).map(([name, of]) => `${name}: ${of(before)} → ${of(after)}`);
  return found.length > 1 ? found.filter(line => !line.startsWith("call: ")) : found;
}
