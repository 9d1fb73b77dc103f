// Groups that are entered twice: a module that is called again further down. As one box it would make a cycle of a
// graph that has none, so that each call becomes a group of its own.

import { entry } from "../../collections";

/** Strongly connected components (Tarjan, 1972), as the component of each vertex. */
function components(out: readonly (readonly number[])[]): Int32Array {
  const count = out.length;
  const component = new Int32Array(count).fill(-1);
  const number = new Int32Array(count).fill(-1);
  const low = new Int32Array(count);
  const stack: number[] = [];
  let numbered = 0;
  let found = 0;
  for (let start = 0; start < count; start++) {
    if (number[start] !== -1) continue;
    const path = [{ at: start, next: 0 }];
    number[start] = low[start] = numbered++;
    stack.push(start);
    for (let top = path[path.length - 1]; top; top = path[path.length - 1]) {
      const { at } = top;
      const next = out[at]![top.next++];
      if (next !== undefined) {
        if (number[next] === -1) {
          number[next] = low[next] = numbered++;
          stack.push(next);
          path.push({ at: next, next: 0 });
        } else if (component[next] === -1) {
          low[at] = Math.min(low[at]!, number[next]!);
        }
        continue;
      }
      path.pop();
      const parent = path[path.length - 1];
      if (parent) low[parent.at] = Math.min(low[parent.at]!, low[at]!);
      if (low[at] !== number[at]) continue;
      for (let member = stack.pop(); member !== undefined; member = stack.pop()) {
        component[member] = found;
        if (member === at) break;
      }
      found++;
    }
  }
  return component;
}

/** Parts of a list of vertices, by what each belongs to; the edges between parts. */
export function quotient(parts: readonly (readonly number[])[],
    sourcesOf: (vertex: number) => readonly number[]): number[][] {
  const part = new Map<number, number>();
  parts.forEach((members, n) => members.forEach(vertex => part.set(vertex, n)));
  const out: Set<number>[] = parts.map(() => new Set());
  parts.forEach((members, n) => {
    for (const vertex of members) {
      for (const source of sourcesOf(vertex)) {
        const from = part.get(source);
        if (from !== undefined && from !== n) out[from]!.add(n);
      }
    }
  });
  return out.map(list => [...list]);
}

/** The parts of `parts` that are on a cycle of parts. */
export function onCycles(parts: readonly (readonly number[])[],
    sourcesOf: (vertex: number) => readonly number[]): Set<number>[] {
  const component = components(quotient(parts, sourcesOf));
  const members = new Map<number, Set<number>>();
  component.forEach((which, n) => entry(members, which, () => new Set()).add(n));
  return [...members.values()].filter(list => list.size > 1);
}

/** A part cut into its visits: the vertices that no path through the rest leads to, those that one path out and in
 * again leads to, and so on. `around` are all vertices on the cycle, in the order of the graph. */
export function visits(part: readonly number[], around: readonly number[],
    sourcesOf: (vertex: number) => readonly number[]): number[][] {
  const inside = new Set(part);
  const on = new Set(around);
  const left = new Map<number, number>(); // for a vertex outside: the last visit that leads to it
  const visit = new Map<number, number>();
  for (const vertex of around) {
    let most = inside.has(vertex) ? 0 : -1;
    for (const source of sourcesOf(vertex)) {
      if (!on.has(source)) continue;
      const came = inside.has(source) ? (visit.get(source) ?? -1) : (left.get(source) ?? -1);
      const again = inside.has(vertex) && !inside.has(source) && came >= 0 ? 1 : 0;
      most = Math.max(most, came + again);
    }
    (inside.has(vertex) ? visit : left).set(vertex, most);
  }
  const found: number[][] = [];
  for (const vertex of part) (found[visit.get(vertex) ?? 0] ??= []).push(vertex);
  return found.filter(list => list !== undefined);
}
