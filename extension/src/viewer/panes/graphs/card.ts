// What a box is about, as a card: beside the pointer while it rests on a box, in the corner for the box that was
// chosen.

import { reasonLink } from "../../catalogue";
import { button, fill, h, tool } from "../../dom";
import type { Context } from "../../pane";
import { type DrawnItem, SAVED_KINDS, type ScenePart, SIGNS } from "./scene";
import { isSourceLine, type Key, key, syntheticReason } from "../../element";
import { bytes, count, phrase, seconds } from "../../format";
import { own, sum } from "../../collections";
import type { Model } from "../../model";
import type { WhyData } from "../../record";
import { differences, type StateNode } from "./family";
import { countsText } from "../../stages";
import type { Group } from "./groups";
import type { Home } from "./kernels";
import { homeTitle } from "./look";

export function Card(context: Context, closable: (() => void) | null) {
  const element = h("div.ex-g-card", { hidden: true });
  if (!closable) element.classList.add("ex-g-tip");

  function show(mark: DrawnItem | null): void {
    element.hidden = mark === null;
    if (!mark) return;
    const { title, meaning, facts } = mark.item.kind === "leaf"
      ? describeNode(mark, mark.item.vertex, context.model) : describeGroup(mark, mark.item);
    const guessed = mark.key === null ? undefined : context.model.links.value.inferred(mark.key);
    const close = closable && tool("×", "Close", closable);
    fill(element,
      h("div.ex-g-card-head", h("strong", title), close),
      ...(meaning ? [h("p.ex-g-meaning", meaning)] : []),
      h(
        "dl", ...facts.flatMap(fact => [h("dt", fact.name), h("dd", value(fact))]),
        ...(guessed ? [h("dt", "Inferred"), h("dd", `source: ${guessed}`)] : []),
      ),
    );
  }

  /** Puts it beside a point of what holds it, where there is room. */
  function place(x: number, y: number): void {
    const holder = element.parentElement;
    if (!holder) return;
    const { offsetWidth: width, offsetHeight: height } = element;
    const left = x + 18 + width < holder.clientWidth ? x + 18 : Math.max(4, x - width - 12);
    const top = Math.max(4, Math.min(y + 14, holder.clientHeight - height - 4));
    Object.assign(element.style, { left: `${left}px`, top: `${top}px` });
  }

  function value({ text, pane, what, why }: NodeFact): Node | string {
    if (!closable) return text;
    if (why) return reasonLink(why, context);
    if (pane === undefined || what === undefined) return text;
    return button("ex-link", text, () => context.show(pane, what));
  }

  return { element, show, place };
}

interface NodeFact {
  readonly name: string;
  readonly text: string;
  /** Where more of it is shown. */
  readonly pane?: string;
  readonly what?: Key;
  readonly why?: WhyData;
}

interface Description {
  readonly title: string;
  readonly meaning: string;
  readonly facts: readonly NodeFact[];
}

const MOST = 600;

function describeNode(mark: DrawnItem, vertex: number, model: Model): Description {
  const { part } = mark;
  const node = mark.node!;
  const { data } = node;
  const { compile, kernels } = part.subject;
  const here = (id: string) => key(compile.id, id);
  const facts: NodeFact[] = [];
  const add = (name: string, text: string, more: Omit<NodeFact, "name" | "text"> = {}) => {
    if (text) facts.push({ name, text: text.length > MOST ? `${text.slice(0, MOST)}…` : text, ...more });
  };
  if (mark.sign) add("This pass", [SIGNS[mark.sign], ...changed(part, vertex, node)].join("\n"));
  add("Call", data.op === "placeholder" ? "" : node.call || data.target);
  add("Type", data.type);
  add("Size", data.bytes ? bytes(data.bytes) : "");
  add("Note", data.about ?? "");
  add("Module", data.module ?? "");
  if (data.span) add("Source", model.files.value.place(data.span.file, data.span.line),
    { pane: "source", what: key("", `${data.span.file}:${data.span.line}`) });
  const synthetic = data.origins.map(syntheticReason).filter(reason => reason !== null);
  add("From", data.origins.filter(origin => !isSourceLine(origin) && syntheticReason(origin) === null).join(", "));
  add("No source line", [...new Set(synthetic)].join(", "));
  const became = kernels.of(data.id, part.view.kind);
  if (became) {
    add("Handling", own(HANDLED, became.kind) ?? became.kind);
    for (const home of became.homes) facts.push(homeFact(home, here(home.id)));
  }
  const saved = mark.backward ? part.saved.get(data.id) : undefined;
  if (saved) add(own(SAVED_KINDS, saved.kind) ?? saved.kind, phrase([saved.why.title, saved.why.detail], ": "),
    { why: saved.why });
  const outputs = mark.outputs.map(String).join(", ");
  add("Result of the graph", outputs && `number ${outputs}`);
  add("Read by", node.users.length ? count(node.users.length, "node") : mark.outputs.length ? "" : "no node");
  add("Not in this graph", node.missing.join(", "));
  if (node.sources.includes(vertex)) add("Odd", "it names itself as an input");
  return { title: data.name, meaning: own(model.record.value.meanings, data.target) ?? "", facts };
}

const HANDLED: { readonly [kind: string]: string } = {
  "": "", kernel: "", extern: "", view: "a view: no code of its own", constant: "a constant",
  unused: "nothing: its result is not needed",
};

function homeFact(home: Home, what: Key): NodeFact {
  const text = `${homeTitle(home)}${home.seconds === null ? "" : `, ${seconds(home.seconds)} in all`}`;
  return { name: home.kind === "kernel" ? "Kernel" : "Library call", text, pane: "code", what };
}

function changed(part: ScenePart, vertex: number, node: StateNode): string[] {
  const { subject, view } = part;
  const old = view.before ? subject.state(view.before).nodes.get(vertex) : undefined;
  return old && old !== node ? differences(old, node) : [];
}

function describeGroup(mark: DrawnItem, group: Group): Description {
  const { part } = mark;
  const { subject, view } = part;
  const state = subject.state(view);
  const there = group.vertices.filter(vertex => state.nodes.has(vertex));
  const facts: NodeFact[] = [{ name: "Holds", text: count(there.length, "node") }];
  if (group.kind === "alike")
    facts.push(
      { name: "Alike", text: `${group.children.length} layers with the same operations, types, arguments and wiring` });
  const module = group.kind === "module" ? commonModule(there.map(vertex => subject.modules[vertex]!)) : "";
  if (module) facts.push({ name: "Module", text: module });
  if (group.kind === "side")
    facts.push({ name: "What", text: group.label === "backward" ? BACKWARD : "what the results are computed from" });
  if (mark.counts) facts.push({ name: "This pass", text: countsText(mark.counts) });
  if (group.home) {
    facts.push(homeFact(group.home, key(subject.compile.id, group.home.id)));
  } else {
    const runs = there.flatMap(vertex => subject.kernels.of(state.nodes.get(vertex)!.data.id, view.kind)?.homes ?? []);
    const homes = new Map(runs.map(home => [home.key, home]));
    const timed = [...homes.values()].filter(home => home.seconds !== null);
    const total = sum(timed, home => home.seconds!);
    const time = timed.length ? `, ${seconds(total)} in all (other nodes may share them)` : "";
    if (homes.size)
      facts.push(
        { name: "Runs in", text: count(homes.size, "kernel or library call", "kernels and library calls") + time });
  }
  const saved = (["saved", "recomputed", "input"] as const).flatMap(kind => {
    const some = there.flatMap(vertex => part.saved.get(state.nodes.get(vertex)!.data.id) ?? [])
      .filter(each => each.kind === kind);
    return some.length && view.kind !== "captured"
      ? [`${SAVED_KINDS[kind]}: ${some.length}, ${bytes(sum(some, each => each.bytes))}`] : [];
  });
  if (saved.length) facts.push({ name: "For the backward", text: saved.join("\n") });
  return { title: group.label, meaning: "", facts };
}

const BACKWARD = "operations that compute gradients, and what only they use";

function commonModule(modules: readonly string[]): string {
  let [first = "", ...rest] = modules;
  for (const other of rest) while (first && other !== first
    && !other.startsWith(`${first}.`)) first = first.slice(0, Math.max(first.lastIndexOf("."), 0));
  return first;
}
