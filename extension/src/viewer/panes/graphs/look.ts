// What is written on boxes, and how large that makes them. By the number of characters, so that a layout is the same on
// every machine.

import { count } from "../../format";
import type { NodeData } from "../../record";
import type { Family } from "./family";
import { type Group, type Item, segments } from "./groups";
import type { Home } from "./kernels";
import { shortTarget } from "./operations";
import type { Size } from "./place";

const TITLE_CHARACTER = 7.7;
const DETAIL_CHARACTER = 6.3;
const MARGIN = 26;
/** A group's sign stands before its name. */
const GROUP_MARGIN = 40;
const MOST_CHARACTERS = 26;
const LEAST_NODE = 76;
/** Room for what a pass did and for an amount, side by side. */
const LEAST_GROUP = 124;
const MOST_WIDTH = 244;
const NODE_HEIGHT = 40;
const GROUP_HEIGHT = 44;

export interface Label {
  readonly title: string;
  readonly detail: string;
}

/** What a node's box says. `module` is the group's, whose name an input need not repeat. */
export function nodeLabel(node: NodeData, module: string): Label {
  const title = node.op.startsWith("call") ? shortTarget(node.target) : node.op === "grad_fn" ? node.target.replace(/Backward\d*$/, "") : inputName(node.name, module);
  return { title: clipped(title, node.op.startsWith("call")), detail: clipped(node.type || (node.op === "grad_fn" ? "grad_fn" : ""), true) };
}

/** An input's name without the path of the module that it is drawn in: "weight" for "l_m_h_0_ln_1_weight". */
function inputName(name: string, module: string): string {
  for (let steps = segments(module); steps.length; steps = steps.slice(1)) {
    const stem = `_${steps.join("_").replace(/\W/g, "_")}_`;
    const at = name.lastIndexOf(stem);
    if (at >= 0 && at + stem.length < name.length) return name.slice(at + stem.length);
  }
  return name;
}

export function groupLabel(group: Group): Label {
  const nodes = count(group.vertices.length, "node");
  if (group.kind === "alike") return { title: clipped(group.label, true), detail: `${nodes}, ${group.children.length} layers` };
  if (group.kind === "kernel" && group.home) return { title: clipped(homeTitle(group.home), true), detail: nodes };
  return { title: clipped(group.label, group.kind === "part"), detail: nodes };
}

/** "k3_sub_div_mul", "call1 aten.addmm.default": an id that the name begins with is not said twice. */
export function homeTitle({ id, name }: Home): string {
  return name.startsWith(id) ? name : `${id} ${name}`;
}

/** Cut to what a box has room for: at the end, or in front where the end tells more. */
export function clipped(text: string, keepStart: boolean, most = MOST_CHARACTERS): string {
  const plain = text.length > 4 * most ? (keepStart ? text.slice(0, 4 * most) : text.slice(-4 * most)) : text;
  const characters = [...plain];
  if (characters.length <= most && plain.length === text.length) return text;
  return keepStart ? `${characters.slice(0, most - 1).join("")}…` : `…${characters.slice(1 - most).join("")}`;
}

/** The size of each item's box; `moduleOf` gives a node's module. */
export function sizes(family: Family, moduleOf: (index: number) => string): (item: Item) => Size {
  const found = new Map<Item, Size>();
  return item => {
    let size = found.get(item);
    if (!size) {
      const label = item.kind === "leaf" ? nodeLabel(family.vertices[item.vertex]!.data, moduleOf(item.vertex)) : groupLabel(item);
      found.set(item, (size = item.kind === "leaf" ? sized(label, MARGIN, LEAST_NODE, NODE_HEIGHT) : sized(label, GROUP_MARGIN, LEAST_GROUP, GROUP_HEIGHT)));
    }
    return size;
  };
}

function sized({ title, detail }: Label, margin: number, least: number, height: number): Size {
  const wide = Math.max(title.length * TITLE_CHARACTER, detail.length * DETAIL_CHARACTER);
  return { width: Math.min(Math.max(2 * Math.ceil((wide + margin) / 2), least), MOST_WIDTH), height };
}
