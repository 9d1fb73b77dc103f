// Which module and which kernel a node is drawn in. What the record says of the node itself comes first. Of some it
// says nothing: inputs and views are drawn with what reads them, sums of gradients with what they add, or between what
// they add last and what reads them.

import { syntheticReason } from "../../element";
import type { NodeData } from "../../record";
import type { Family, Vertex } from "./family";
import { segments } from "./groups";
import type { Home, Kernels } from "./kernels";
import type { GraphKind } from "./views";

/** The module of each node, by index. `moduleOfOrigin` helps where nodes carry no module (eager's autograd graph). */
export function modulesOf(family: Family, moduleOfOrigin: (id: string) => string): string[] {
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
export function homesOf(family: Family, kernels: Kernels, kind: GraphKind): (Home | undefined)[] {
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
