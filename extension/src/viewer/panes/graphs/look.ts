// What is written on boxes, and how large that makes them. By the number of characters, so that a layout is the same on
// every machine.

import { count } from "../../format";
import { entry } from "../../collections";
import type { NodeData } from "../../record";
import type { Family } from "./family";
import { around, type Group, type Item, type Leaf, segments } from "./groups";
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
/** Steps of a module's path that an input's name keeps where modules are not drawn. */
const STEPS = 2;

export interface ItemLabel {
  readonly title: string;
  readonly detail: string;
}

/** What a node's box says. `module` is the one that it is in; an input's name need not repeat it where that is
 * drawn. */
export function nodeLabel(leaf: Leaf, node: NodeData, module: string): ItemLabel {
  const drawn = around(leaf).some(group => group.kind === "module");
  const call = node.op.startsWith("call");
  const gradient = node.op === "grad_fn";
  const title = call ? shortTarget(node.target)
    : gradient ? node.target.replace(/Backward\d*$/, "") : inputName(node.name, module, drawn ? 0 : STEPS);
  return { title: clipped(title, call), detail: clipped(node.type || (gradient ? "grad_fn" : ""), true) };
}

/** An input's name without the path of its module, but for the last steps: "weight" for "l_m_h_0_ln_1_weight". */
function inputName(name: string, module: string, kept: number): string {
  const path = (steps: readonly string[]) => steps.map(step => `${step.replace(/\W/g, "_")}_`).join("");
  for (let steps = segments(module); steps.length; steps = steps.slice(1)) {
    const at = name.lastIndexOf(`_${path(steps)}`);
    const left = path(kept ? steps.slice(0, -kept) : steps);
    if (at >= 0 && at + 1 + path(steps).length < name.length) return name.slice(at + 1 + left.length);
  }
  return name;
}

export function groupLabel(group: Group): ItemLabel {
  const nodes = count(group.vertices.length, "node");
  if (group.kind === "alike")
    return { title: clipped(group.label, true), detail: `${nodes}, ${group.children.length} layers` };
  if (group.kind === "kernel" && group.home) return { title: clipped(homeTitle(group.home), true), detail: nodes };
  return { title: clipped(group.label, group.kind === "part"), detail: nodes };
}

/** "k3_sub_div_mul", "call1 aten.addmm.default": an id that the name begins with is not said twice. */
export const homeTitle = ({ id, name }: Home): string => (name.startsWith(id) ? name : `${id} ${name}`);

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
  return item => entry(found, item, () => (item.kind === "leaf"
    ? sized(nodeLabel(item, family.vertices[item.vertex]!.data, moduleOf(item.vertex)), MARGIN, LEAST_NODE, NODE_HEIGHT)
    : sized(groupLabel(item), GROUP_MARGIN, LEAST_GROUP, GROUP_HEIGHT)));
}

function sized({ title, detail }: ItemLabel, margin: number, least: number, height: number): Size {
  const wide = Math.max(title.length * TITLE_CHARACTER, detail.length * DETAIL_CHARACTER);
  return { width: Math.min(Math.max(2 * Math.ceil((wide + margin) / 2), least), MOST_WIDTH), height };
}
