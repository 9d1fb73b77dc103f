// Which graphs of a compile there are to look at, and which of them are states of the same graph.

import type { CompileData, GradNodeData, GraphData, LineData, NodeData, StageData } from "../../record";
import { artifact, level } from "../../stages";

export type GraphKind = "captured" | "traced" | "joint" | "forward" | "backward" | "eager";

export interface GraphView {
  readonly id: string;
  /** The stage that made it. */
  readonly stage: string;
  readonly title: string;
  readonly kind: GraphKind;
  /** Views of one family are states of one graph: what persists has the same id, and is drawn in the same place. */
  readonly family: string;
  readonly graph: GraphData;
  readonly lines: readonly LineData[];
  /** The state before it. */
  readonly before: GraphView | null;
}

export const WHAT: { readonly [kind in GraphKind]: string } = {
  captured: "the graph captured from bytecode",
  traced: "the traced graph, as ATen operations",
  joint: "forward and backward traced as one graph",
  forward: "the forward half",
  backward: "the backward half",
  eager: "eager's autograd graph: the grad_fn nodes, from the result to the leaves",
};

/** In the order in which they were made; eager's autograd graph stands before the joint one. */
export function viewsOf(compile: CompileData): GraphView[] {
  const views: GraphView[] = [];
  const latest = new Map<string, GraphView>();
  const add = (made: Omit<GraphView, "before" | "family">) => {
    const family = `${made.kind === "joint" ? "traced" : made.kind} ${level(made.graph)}`;
    const view = { ...made, family, before: latest.get(family) ?? null };
    latest.set(family, view);
    views.push(view);
  };
  for (const stage of compile.stages ?? []) {
    const lines = stage.body?.lines ?? [];
    if (stage.graph) {
      const kind = kindOf(stage, stage.graph);
      if (kind === "joint" && !views.some(each => each.kind === "eager") && compile.eager_backward?.length) {
        add({ ...EAGER, stage: stage.id, graph: asGraph(compile.eager_backward),
          lines: asLines(compile.eager_backward) });
      }
      add({ id: stage.id, stage: stage.id, title: stage.name, kind, graph: stage.graph, lines });
    }
    for (const [n, graph] of (stage.halves ?? []).entries()) {
      const kind = n === 0 ? "forward" : "backward";
      const id = `${stage.id}:${kind}`;
      add({ id, stage: stage.id, title: kind, kind, graph, lines: linesOf(graph.name, lines) });
    }
  }
  return views;
}

const EAGER = { id: "eager", title: "eager autograd", kind: "eager" } as const;

/** What ids of nodes begin with in a record of a log. */
const IN_LOGS = { forward: "fw", backward: "bw" };

function kindOf(stage: StageData, graph: GraphData): GraphKind {
  const of = level(graph);
  for (const half of ["forward", "backward"] as const) if (stage.half?.endsWith(half) || of === IN_LOGS[half])
    return half;
  if (graph.nodes.some(isTangent)) return "joint";
  return /^(aten|joint\d?|inf|post0?|given|ca)$/.test(of) ? "traced" : "captured";
}

/** Whether a node is a gradient that comes in from outside. */
export const isTangent = (node: NodeData): boolean => node.op === "placeholder" && /^tangents?_\d+$/.test(node.name);

/** The view of a stage, or of the last stage before it that has one; undefined where none has. */
export function viewAt(views: readonly GraphView[], compile: CompileData, stage: string): GraphView | undefined {
  const stages = compile.stages ?? [];
  for (let at = stages.findIndex(each => each.id === stage); at >= 0; at--) {
    const made = artifact(compile, stages[at]!);
    const found = views.find(view => view.stage === made.id && view.kind !== "eager");
    if (found) return found;
  }
  return undefined;
}

/** The lines of one graph in a text of several: from "graph NAME(" to the next. */
function linesOf(name: string, lines: readonly LineData[]): readonly LineData[] {
  const first = lines.findIndex(([text]) => text.startsWith(`graph ${name}(`));
  if (first < 0) return lines;
  const length = lines.slice(first + 1).findIndex(([text]) => text.startsWith("graph "));
  return lines.slice(first, length < 0 ? undefined : first + 1 + length);
}

/** The autograd graph in the direction in which gradients flow. */
function asGraph(nodes: readonly GradNodeData[]): GraphData {
  const inputs = new Map<string, string[]>(nodes.map(node => [node.id, []]));
  for (const node of nodes) for (const next of node.inputs) inputs.get(next)?.push(node.id);
  return {
    name: "eager autograd",
    nodes: nodes.map(({ id, name, origins }) => ({
      id, name, op: "grad_fn", target: name, type: "", inputs: inputs.get(id) ?? [], origins,
    })),
    outputs: [],
  };
}

function asLines(nodes: readonly GradNodeData[]): LineData[] {
  return nodes.map(
    ({ id, name, origins, inputs }) => [`${id}: ${name} -> ${inputs.join(", ") || "nothing"}`, id, origins]);
}
