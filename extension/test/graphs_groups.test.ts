import assert from "node:assert/strict";
import { test } from "node:test";
import { familyOf } from "../src/viewer/panes/graphs/family";
import { type Group, groupsIn, type Item, type Leaf, segments, verticesOf } from "../src/viewer/panes/graphs/groups";
import { clipped, nodeLabel } from "../src/viewer/panes/graphs/look";
import { Kernels } from "../src/viewer/panes/graphs/kernels";
import { allOpen, firstOpen, MOST, opening, shownCount, Subject } from "../src/viewer/panes/graphs/subject";
import { viewsOf } from "../src/viewer/panes/graphs/views";
import type { CompileData, GraphData, NodeData } from "../src/viewer/record";
import { compile, graph, input, network, node, printed, stage } from "./graphs_records";

function subjectOf(of: CompileData, family?: string): Subject {
  const views = viewsOf(of);
  const chosen = family ?? views[0]!.family;
  return new Subject(of, views.filter(view => view.family === chosen), Kernels(of), () => "");
}

function subject(made: GraphData): Subject {
  return subjectOf(compile([stage("f0/0", "trace", made)]));
}

/** The groups as "label[child child]", leaves by name. */
function outline(subject: Subject, item: Item): string {
  if (item.kind === "leaf") return subject.family.vertices[item.vertex]!.data.name;
  return `${item.label}[${item.children.map(child => outline(subject, child)).join(" ")}]`;
}

function find(root: Group, label: string): Group | undefined {
  return [...groupsIn(root)].find(group => group.label === label);
}

test("a module's path is a way of steps, numbers staying with their list", () => {
  assert.deepEqual(segments("model.h.0.attn.c_attn"), ["model", "h.0", "attn", "c_attn"]);
  assert.deepEqual(segments("0.1"), ["0.1"]);
  assert.deepEqual(segments(""), []);
});

test("nodes are grouped by module, an input with what reads it, and groups of one group are one", () => {
  const made = subject(graph([
    input("aten.x"), input("aten.w"),
    node("aten.a", ["aten.x", "aten.w"], { module: "net.body.fc" }),
    node("aten.b", ["aten.a"], { module: "net.body.fc" }),
    node("aten.c", ["aten.b"], { module: "net.body.act" }), node("aten.d", ["aten.c"], { module: "net.body.act" }),
    node("aten.e", ["aten.d", "aten.x"]),
  ]));
  assert.equal(outline(made, made.root("module")), "[x net.body[fc[w a b] act[c d]] e]");
  assert.equal(outline(made, made.root("none")), "[x w a b c d e]");
});

test("a sum of gradients is drawn where it belongs: in the module whose uses it adds up", () => {
  const synthetic = { origins: ["synthetic:gradient accumulation"] };
  const made = subject(graph([
    input("aten.g"),
    node("aten.p", ["aten.g"], { module: "net.h.1.ln" }), node("aten.q", ["aten.g"], { module: "net.h.1.fc" }),
    node("aten.sum", ["aten.p", "aten.q"], synthetic),
    node("aten.r", ["aten.sum"], { module: "net.h.0.ln" }), node("aten.s", ["aten.r"], { module: "net.h.0.ln" }),
  ]));
  assert.equal(made.modules[3], "net.h.1");
});

test("a module that is called again further down has a group for each call, so that the groups make no cycle", () => {
  const made = subject(graph([
    input("aten.x"),
    node("aten.a", ["aten.x"], { module: "act" }), node("aten.b", ["aten.a"], { module: "act" }),
    node("aten.c", ["aten.b"], { module: "fc" }), node("aten.d", ["aten.c"], { module: "fc" }),
    node("aten.e", ["aten.d"], { module: "act" }), node("aten.f", ["aten.e"], { module: "act" }),
  ]));
  assert.equal(outline(made, made.root("module")), "[act[x a b] fc[c d] act (2)[e f]]");
});

test("identical layers are folded into one box", () => {
  const made = subject(network(12, 10));
  const root = made.root("module");
  const fold = [...groupsIn(root)].find(group => group.kind === "alike");
  // The first reads the graph's input itself, the last gives the result: these differ.
  assert.equal(fold?.label, "h.1 – h.10");
  assert.equal(fold.children.length, 10);
});

const LAYERS = 6;

/** Six layers of which the fourth is changed by `change`. */
function layers(change: (node: NodeData, n: number) => Partial<NodeData>,
    constant?: (node: NodeData) => string): Subject {
  const nodes: NodeData[] = [input("aten.x")];
  for (let layer = 0; layer < LAYERS; layer++) {
    for (let n = 0; n < 3; n++) {
      const id = `aten.n_${layer}_${n}`;
      const made = node(id, [nodes[nodes.length - 1]!.id], { module: `net.h.${layer}` });
      nodes.push(layer === 3 ? { ...made, ...change(made, n) } : made);
    }
  }
  nodes.push(node("aten.end", [nodes[nodes.length - 1]!.id]));
  const made = graph(nodes);
  return subjectOf(compile([stage("f0/0", "trace", made, { body: printed(made, constant) })]));
}

function folds(made: Subject): string[] {
  return [...groupsIn(made.root("module"))].filter(group => group.kind === "alike").map(group => group.label);
}

test("layers are folded only where they are truly identical", () => {
  // h.0 alone takes the graph's input.
  assert.deepEqual(folds(layers(() => ({}))), ["h.1 – h.5"]);
  assert.deepEqual(folds(layers((_, n) => (n === 1 ? { target: "aten.sub.Tensor" } : {}))), [], "another operation");
  assert.deepEqual(folds(layers((_, n) => (n === 1 ? { type: "f32[4, 9]" } : {}))), [], "another type");
  assert.deepEqual(folds(layers((each, n) => (n === 2 ? { inputs: [...each.inputs, "aten.n_3_0"] } : {}))), [],
    "other wiring");
  assert.deepEqual(folds(layers((each, n) => (n === 2 ? { module: `${each.module}.deeper` } : {}))), [],
    "another module inside");
  assert.deepEqual(folds(layers(() => ({}), each => (each.id === "aten.n_3_1" ? "0.5" : "1"))), [], "another constant");
});

test("layers that differ in an earlier state of the graph alone are not folded", () => {
  const nodes = network(8, 6).nodes;
  const before = graph(nodes.map(each => (each.id === "aten.op_4_2" ? { ...each, target: "aten.div.Tensor" } : each)));
  const same =
    subjectOf(compile(
      [stage("f0/0", "trace", graph(nodes)), stage("f0/1", "pass", graph(nodes.filter(each => each.id !== "none")))]));
  const other = subjectOf(compile([stage("f0/0", "trace", before), stage("f0/1", "pass", graph(nodes))]));
  assert.deepEqual(folds(same), ["h.1 – h.6"]);
  assert.deepEqual(folds(other), ["h.1 – h.3"]);
});

test("too many children are cut into parts, which hold every node once", () => {
  const made = subject(network(20, 100, false));
  const root = made.root("module");
  assert.ok(root.children.length <= 400);
  const all = [root, ...groupsIn(root)];
  for (const group of all)
    assert.ok(group.children.length <= 400, `${group.label} has ${group.children.length} children`);
  const leaves =
    all.flatMap(group => group.children.filter(child => child.kind === "leaf").map(child => verticesOf(child)[0]!));
  assert.deepEqual(leaves.sort((a, b) => a - b), made.family.vertices.map((_, n) => n));
});

function withKernels(): CompileData {
  const nodes = [
    input("aten.x"), node("aten.a", ["aten.x"]), node("aten.b", ["aten.a"]),
    node("aten.v", ["aten.b"], { target: "aten.view.default" }),
    node("aten.m", ["aten.v"], { target: "aten.mm.default" }), node("aten.c", ["aten.m"]),
  ];
  return compile([stage("f0/0", "trace", graph(nodes))], {
    halves: [{
      name: "f0", target: "cpu",
      operations: [
        { id: "buf0", kind: "loop", target: "pointwise", reads: [], writes: ["buf0"], origins: [] },
        { id: "mm0", kind: "extern", target: "aten.mm.default", reads: [], writes: ["buf1"], origins: [] },
        { id: "buf2", kind: "loop", target: "pointwise", reads: [], writes: ["buf2"], origins: [] },
      ],
      schedule: {
        items: [{ id: "k0", kind: "kernel", operations: ["buf0"] },
          { id: "call0", kind: "extern", operations: ["mm0"] }, { id: "k1", kind: "kernel", operations: ["buf2"] }],
        fusions: [],
      },
      kernels: [
        { id: "k0", function: "k0_add", language: "cpp", source: { lines: [] }, origins: [], bytes: 0, flops: 0,
          seconds: 2e-6 },
        { id: "k1", function: "k1_add", language: "cpp", source: { lines: [] }, origins: [], bytes: 0, flops: 0 },
      ],
      extern_seconds: { call0: 5e-6 },
      nodes: { "aten.a": ["kernel", ["buf0"]], "aten.b": ["kernel", ["buf0"]], "aten.v": ["view", []],
        "aten.m": ["extern", ["mm0"]], "aten.c": ["kernel", ["buf2"]] },
    }],
  });
}

test("nodes are grouped by the kernel or library call that they ended in, a view with the one that reads it", () => {
  const made = subjectOf(withKernels());
  assert.equal(outline(made, made.root("kernel")), "[x k0[a b] call0[v m] k1[c]]");
  const homes = made.kernels.of("aten.m", "traced")?.homes;
  assert.deepEqual(homes?.map(home => [home.id, home.kind, home.name, home.seconds]),
    [["call0", "extern", "aten.mm.default", 5e-6]]);
  assert.equal(made.kernels.of("aten.c", "traced")?.homes[0]?.seconds, null, "what was not timed has no time");
  assert.equal(made.kernels.of("aten.x", "traced"), undefined);
});

test("the frame of a kernel that was timed has room for its name and its time", () => {
  const made = subjectOf(withKernels());
  const { shapes } = made.placement("kernel", new Set(groupsIn(made.root("kernel"))));
  for (const [id, title] of [["k0", "k0_add 2.00 us"], ["call0", "call0 aten.mm.default 5.00 us"]] as const) {
    const frame = shapes.find(({ item }) => item.kind === "kernel" && item.home?.id === id);
    assert.ok(frame!.open && frame!.width >= 40 + 7.4 * title.length, `${id}: ${frame!.width}`);
  }
});

test("a view between two nodes of one kernel is drawn in it, so that the kernel does not feed itself", () => {
  const of = withKernels();
  const nodes = [
    input("aten.x"), node("aten.a", ["aten.x"]), node("aten.v", ["aten.a"], { target: "aten.view.default" }),
    node("aten.w", ["aten.v"], { target: "aten.view.default" }), node("aten.b", ["aten.w"]),
    node("aten.m", ["aten.v", "aten.b"], { target: "aten.mm.default" }),
  ];
  const made = subjectOf({ ...of, stages: [stage("f0/0", "trace", graph(nodes))] });
  assert.equal(outline(made, made.root("kernel")), "[x k0[a v w b] call0[m]]");
});

test("the nodes and kernels are found by their ids", () => {
  const made = subjectOf(withKernels());
  assert.equal(made.find("module", "aten.m")?.kind, "leaf");
  assert.equal(made.find("kernel", "call0")?.kind, "kernel");
  assert.equal(made.find("module", "aten.none"), undefined);
});

test("a joint graph has a forward and a backward side; what is there for gradients alone is backward", () => {
  const made = subject(graph([
    input("aten.x"), node("aten.a", ["aten.x"]), input("aten.tangent_0"), node("aten.mask", ["aten.a"]),
    node("aten.g", ["aten.tangent_0", "aten.mask"]), node("aten.loss", ["aten.a"]),
  ], ["aten.loss", "aten.g"]));
  assert.equal(outline(made, made.root("module")), "[forward[x a loss] backward[tangent_0 mask g]]");
});

test("a graph opens with few boxes, all children of a group or none", () => {
  const root = subject(network(40, 30)).root("module");
  const open = firstOpen(root);
  assert.ok(shownCount(root, open) <= 16);
  for (const group of open) {
    const siblings = group.parent!.children.filter(child => child.kind !== "leaf" && child.kind !== "alike");
    assert.ok(siblings.every(each => open.has(each as Group)));
  }
});

test("opening a group opens what is around it, and closes what was opened longest ago where it would be too much",
  () => {
  const root = subject(network(40, 30, true)).root("module");
  let open = new Set<Group>();
  const inner = [...groupsIn(root)].filter(group => group.label === "attn" || group.label === "mlp");
  let closed: Group[] = [];
  for (const group of inner.slice(0, 24)) {
    const next = opening(root, open, group);
    open = next.open;
    closed = [...closed, ...next.closed];
    assert.ok(shownCount(root, open) <= MOST);
    for (let at: Group | null = group; at?.parent; at = at.parent) assert.ok(open.has(at));
  }
  assert.ok(closed.length > 0);
  assert.ok(shownCount(root, allOpen(root)) <= MOST);
});

test("ids given twice, inputs that do not exist, and nodes that read themselves are shown as they are", () => {
  const of = compile([stage("f0/0", "trace", graph([
    input("aten.x"), node("aten.a", ["aten.x", "aten.gone"]), node("aten.a", ["aten.a"]),
    node("aten.self", ["aten.self"]),
  ], ["aten.gone", "None", "aten.a"]))]);
  const family = familyOf(viewsOf(of));
  assert.deepEqual(family.vertices.map(each => each.key), ["aten.x", "aten.a", "aten.a (2)", "aten.self"]);
  const state = [...family.states.values()][0]!;
  assert.deepEqual(state.nodes.get(1)!.missing, ["aten.gone"]);
  assert.deepEqual(state.nodes.get(2)!.sources, [1]);
  assert.deepEqual([...state.outputs], [[1, [2]]]);
  assert.equal(find(subjectOf(of).root("module"), "none"), undefined);
});

test("an input's name leaves out the modules that are drawn around it", () => {
  const made = subject(graph([
    input("aten.l_m_net_h_0_ln_1_weight", { name: "l_m_net_h_0_ln_1_weight" }),
    node("aten.a", ["aten.l_m_net_h_0_ln_1_weight"], { module: "net.h.0.ln_1" }),
    node("aten.b", ["aten.a"], { module: "net.h.0.ln_1" }),
  ]));
  const label = (by: "module" | "none") => {
    const leaf = made.find(by, "aten.l_m_net_h_0_ln_1_weight") as Leaf;
    return nodeLabel(leaf, made.family.vertices[0]!.data, made.modules[0]!).title;
  };
  assert.equal(label("module"), "weight");
  assert.equal(label("none"), "h_0_ln_1_weight");
});

test("long names are cut to what a box has room for", () => {
  assert.equal(clipped("abcdefgh", true, 5), "abcd…");
  assert.equal(clipped("abcdefgh", false, 5), "…efgh");
  assert.equal(clipped("abc", true, 5), "abc");
  assert.equal(clipped("x".repeat(1e6), false, 5).length, 5);
});
