// Which groups are open: few enough that the picture can be read.

import { around, type Group, groupsIn, type Item } from "./groups";
import { sum } from "../../collections";

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
