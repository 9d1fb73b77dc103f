// Made-up compiles for the tests of the graphs pane.

import type { CompileData, GraphData, NodeData, StageData } from "../src/viewer/record";

export function node(id: string, inputs: readonly string[], more: Partial<NodeData> = {}): NodeData {
  const name = id.split(".").slice(1).join("_") || id;
  return { id, name, op: "call_function", target: "aten.add.Tensor", type: "f32[4, 8]", inputs, origins: [], bytes: 128,
    ...more };
}

export function input(id: string, more: Partial<NodeData> = {}): NodeData {
  return node(id, [], { op: "placeholder", target: id, ...more });
}

export function graph(nodes: readonly NodeData[],
    outputs: readonly string[] = nodes.slice(-1).map(each => each.id)): GraphData {
  return { name: "f0", nodes, outputs };
}

/** The lines of a graph as a stage prints them, each call with `constant` among its arguments. */
export function printed({ nodes }: GraphData, constant: (node: NodeData) => string = () => "1"): StageData["body"] {
  return {
    language: "python",
    lines: nodes.map(
      each =>
        [`  ${each.name}: ${each.type} = ${each.target}(${[...each.inputs.map(id => id.split(".")[1]), constant(each)].join(", ")})  # a.py:1`, each.id, each.origins]),
  };
}

export function stage(id: string, name: string, made: GraphData | null, more: Partial<StageData> = {}): StageData {
  return { id, name, started: 0, seconds: 0.001, depth: 0, graph: made, body: made ? printed(made) : null, ...more };
}

export function compile(stages: readonly StageData[], more: Partial<CompileData> = {}): CompileData {
  return { id: "f0", title: "f", started: 0, seconds: 1, stages, ...more };
}

/** Layers of a network: an input goes through `layers` modules of `each` nodes, some of which read a mask. */
export function network(layers: number, each: number, modules = true): GraphData {
  const nodes: NodeData[] = [input("aten.x"), input("aten.mask")];
  let last = "aten.x";
  for (let layer = 0; layer < layers; layer++) {
    const start = last;
    nodes.push(input(`aten.w_${layer}`));
    for (let n = 0; n < each - 1; n++) {
      const inputs = [last, ...(n === 1 ? ["aten.mask"] : []), ...(n === 2 ? [`aten.w_${layer}`] : []),
        ...(n === each - 2 ? [start] : [])];
      const part = n < each / 2 ? "attn" : "mlp";
      const id = `aten.op_${layer}_${n}`;
      nodes.push(node(id, inputs,
        { module: modules ? `model.h.${layer}.${part}` : "", target: n % 3 ? "aten.mul.Tensor" : "aten.add.Tensor" }));
      last = id;
    }
  }
  return graph(nodes);
}
