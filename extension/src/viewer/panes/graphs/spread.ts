// Where vertices stand within their layers: each as near to its neighbors' mean as the order and the room between them
// allow. Long edges are kept straight; parameters give way.

import { adjacency, type Segment, type LayerVertex } from "./order";
import { sum } from "../../collections";

const ROUNDS = 10;
const ROUNDS_STRAIGHT = 16;
const BETWEEN_BOXES = 20;
const BESIDE_BEND = 12;
/** How much more a straight trunk counts than a box's wish, at first and as the rounds go by. */
const STIFF = 20;
const STIFFER = 1.6;

/** How much less counts what is not on the main way. */
const ASIDE = 0.25;

/** For each vertex the neighbors on one side: its center would be at theirs plus `shift`. */
interface Adjacency {
  readonly start: Int32Array;
  readonly vertex: Int32Array;
  readonly shift: Float64Array;
  readonly weight: Float64Array;
}

/** The center of each vertex, none left of 0. */
export function spread(vertices: readonly LayerVertex[], segments: readonly Segment[],
    layers: readonly (readonly number[])[]): number[] {
  const weight = weights(vertices, segments, layers);
  const above = sideOf(vertices, segments, weight, true);
  const below = sideOf(vertices, segments, weight, false);
  const room = (left: number, right: number) => {
    const [a, b] = [vertices[left]!, vertices[right]!];
    return (a.width + b.width) / 2 + (a.bend || b.bend ? BESIDE_BEND : BETWEEN_BOXES);
  };
  const x = new Float64Array(vertices.length);
  for (const members of layers) {
    let at = 0;
    members.forEach((vertex, n) => (x[vertex] = at += n ? room(members[n - 1]!, vertex) : 0));
    for (const vertex of members) x[vertex]! -= at / 2;
  }
  const upwards = [...layers].reverse();
  for (let round = 0; round < ROUNDS; round++) {
    const both = round >= ROUNDS - 4;
    const down = round % 2 === 0;
    const sides = both ? [above, below] : [down ? above : below];
    for (const members of down ? layers : upwards) leastSquares(members, x, sides, null, 0, room);
  }
  const trunks = trunksOf(vertices, segments);
  const straight = new Float64Array(vertices.length).fill(NaN);
  for (let round = 0; trunks.length && round < ROUNDS_STRAIGHT; round++) {
    for (const trunk of trunks) {
      const mean = sum(trunk, vertex => x[vertex]!) / trunk.length;
      for (const vertex of trunk) straight[vertex] = mean;
    }
    for (const members of round % 2 === 0 ? layers : upwards)
      leastSquares(members, x, [above, below], straight, STIFF * STIFFER ** round, room);
  }
  straighten(vertices, segments, weight, layers, x, room);
  joinPieces(vertices, segments, layers, x, room);
  const least = vertices.reduce((found, vertex, n) => Math.min(found, x[n]! - vertex.width / 2), Infinity);
  return Array.from(x, at => Math.round(at - least));
}

function sideOf(vertices: readonly LayerVertex[], segments: readonly Segment[], weight: Float64Array,
    above: boolean): Adjacency {
  const { start, order } = adjacency(vertices.length, segments, above);
  const sign = above ? 1 : -1;
  return {
    start, vertex: order.map(n => (above ? segments[n]!.upper : segments[n]!.lower)),
    shift: Float64Array.from(order, n => sign * (segments[n]!.upperAt - segments[n]!.lowerAt)),
    weight: Float64Array.from(order, n => weight[n]!),
  };
}

/** How much each segment wants to be upright. Those on a way from the first layer to the last count most. */
function weights(vertices: readonly LayerVertex[], segments: readonly Segment[],
    layers: readonly (readonly number[])[]): Float64Array {
  const from = Int32Array.from(vertices, vertex => vertex.layer);
  const to = from.slice();
  const sorted =
    segments.map((_, n) => n).sort((a, b) => vertices[segments[a]!.upper]!.layer - vertices[segments[b]!.upper]!.layer);
  for (const n of sorted) from[segments[n]!.lower] = Math.min(from[segments[n]!.lower]!, from[segments[n]!.upper]!);
  for (const n of sorted.reverse()) to[segments[n]!.upper] = Math.max(to[segments[n]!.upper]!, to[segments[n]!.lower]!);
  return Float64Array.from(segments, ({ upper, lower }) => {
    const main = from[upper] === 0 && to[lower] === layers.length - 1;
    return weigh(vertices[upper]!, vertices[lower]!) * (main ? 1 : ASIDE);
  });
}

function weigh(upper: LayerVertex, lower: LayerVertex): number {
  if (upper.bend && lower.bend) return 16;
  if (upper.bend || lower.bend) return 4;
  return upper.light || lower.light ? 1 : 8;
}

/** The places in one layer with the least weighted square distance from the wanted ones that keep order and room:
 * isotonic regression by pooling adjacent violators. What has a place in `straight` wants to stand there. */
function leastSquares(
  members: readonly number[], x: Float64Array, sides: readonly Adjacency[], straight: Float64Array | null,
  stiff: number,
  room: (left: number, right: number) => number,
): void {
  const sums: number[] = [];
  const weights: number[] = [];
  const sizes: number[] = [];
  const offsets: number[] = [];
  let offset = 0;
  for (let n = 0; n < members.length; n++) {
    const vertex = members[n]!;
    if (n) offset += room(members[n - 1]!, vertex);
    offsets.push(offset);
    let sum = x[vertex]! * 0.01;
    let weight = 0.01;
    const fixed = straight ? straight[vertex]! : NaN;
    if (fixed === fixed) {
      sum = fixed * stiff;
      weight = stiff;
    } else {
      for (const side of sides) {
        for (let at = side.start[vertex]!, end = side.start[vertex + 1]!; at < end; at++) {
          sum += (x[side.vertex[at]!]! + side.shift[at]!) * side.weight[at]!;
          weight += side.weight[at]!;
        }
      }
    }
    sum -= offset * weight;
    let size = 1;
    for (let last = sums.length - 1; last >= 0 && sums[last]! * weight >= sum * weights[last]!; last--) {
      sum += sums.pop()!;
      weight += weights.pop()!;
      size += sizes.pop()!;
    }
    sums.push(sum);
    weights.push(weight);
    sizes.push(size);
  }
  let n = 0;
  for (let pool = 0; pool < sums.length; pool++) {
    const at = sums[pool]! / weights[pool]!;
    for (let left = sizes[pool]!; left > 0; left--, n++) x[members[n]!] = at + offsets[n]!;
  }
}

/** The bends of each long edge, from top to bottom. */
function trunksOf(vertices: readonly LayerVertex[], segments: readonly Segment[]): number[][] {
  const next = new Map<number, number>();
  const inner = new Set<number>();
  for (const { upper, lower } of segments) {
    if (!vertices[upper]!.bend || !vertices[lower]!.bend) continue;
    next.set(upper, lower);
    inner.add(lower);
  }
  const trunks: number[][] = [];
  vertices.forEach((vertex, first) => {
    if (!vertex.bend || inner.has(first)) return;
    const trunk: number[] = [];
    for (let at: number | undefined = first; at !== undefined; at = next.get(at)) trunk.push(at);
    trunks.push(trunk);
  });
  return trunks;
}

/** Moves what is joined to nothing else towards the largest piece, so that no empty space is left between. */
function joinPieces(
  vertices: readonly LayerVertex[], segments: readonly Segment[], layers: readonly (readonly number[])[],
  x: Float64Array,
  room: (left: number, right: number) => number,
): void {
  const piece = piecesOf(vertices.length, segments);
  const sizes = new Map<number, number>();
  for (const each of piece) sizes.set(each, (sizes.get(each) ?? 0) + 1);
  if (sizes.size < 2) return;
  const [main] = [...sizes].reduce((a, b) => (b[1] > a[1] ? b : a));
  const middle = (of: number) =>
    vertices.reduce((sum, _, n) => (piece[n] === of ? sum + x[n]! : sum), 0) / sizes.get(of)!;
  const at = middle(main);
  const others = [...sizes.keys()].filter(each => each !== main).map(each => ({ each, off: middle(each) - at }));
  for (const { each, off } of others.sort((a, b) => Math.abs(a.off) - Math.abs(b.off))) {
    let free = Infinity;
    for (const members of layers) {
      members.forEach((vertex, n) => {
        const neighbor = off < 0 ? members[n + 1] : members[n - 1];
        if (piece[vertex] !== each || neighbor === undefined || piece[neighbor] === each) return;
        free = Math.min(free, off < 0
          ? x[neighbor]! - room(vertex, neighbor) - x[vertex]! : x[vertex]! - room(neighbor, vertex) - x[neighbor]!);
      });
    }
    if (free <= 0 || !Number.isFinite(free)) continue;
    for (let n = 0; n < vertices.length; n++) if (piece[n] === each) x[n]! += off < 0 ? free : -free;
  }
}

/** The connected piece of each vertex, named by its first vertex. */
function piecesOf(count: number, segments: readonly Segment[]): Int32Array {
  const parent = Int32Array.from({ length: count }, (_, n) => n);
  const find = (of: number) => {
    let at = of;
    while (parent[at] !== at) at = parent[at] = parent[parent[at]!]!;
    return at;
  };
  for (const { upper, lower } of segments) {
    const [a, b] = [find(upper), find(lower)];
    parent[Math.max(a, b)] = Math.min(a, b);
  }
  return parent.map((_, n) => find(n));
}

/** Makes long edges and chains upright that are nearly so, where their neighbors leave room. */
function straighten(
  vertices: readonly LayerVertex[], segments: readonly Segment[], weight: Float64Array,
  layers: readonly (readonly number[])[], x: Float64Array,
  room: (left: number, right: number) => number,
): void {
  const place = new Int32Array(vertices.length);
  for (const members of layers) members.forEach((vertex, n) => (place[vertex] = n));
  const heaviest: (Segment | undefined)[] = vertices.map(() => undefined);
  const taken = new Set<number>();
  for (const n of segments.map((_, at) => at).sort((a, b) => weight[b]! - weight[a]! || a - b)) {
    const segment = segments[n]!;
    if (heaviest[segment.upper] || taken.has(segment.lower)) continue;
    heaviest[segment.upper] = segment;
    taken.add(segment.lower);
  }
  vertices.forEach((_, start) => {
    if (taken.has(start)) return;
    const chain = [{ vertex: start, shift: 0 }];
    for (let next = heaviest[start]; next; next = heaviest[next.lower]) {
      const last = chain[chain.length - 1]!;
      chain.push({ vertex: next.lower, shift: last.shift + next.upperAt - next.lowerAt });
    }
    align(chain, layers, place, vertices, x, room);
  });
}

/** Gives as long a run of a chain as possible one x, from its first vertex on; then the next run. */
function align(
  chain: readonly { vertex: number; shift: number }[], layers: readonly (readonly number[])[], place: Int32Array,
  vertices: readonly LayerVertex[], x: Float64Array, room: (left: number, right: number) => number,
): void {
  for (let first = 0; first < chain.length; ) {
    let [low, high] = [-Infinity, Infinity];
    let end = first;
    for (; end < chain.length; end++) {
      const { vertex, shift } = chain[end]!;
      const members = layers[vertices[vertex]!.layer]!;
      const [left, right] = [members[place[vertex]! - 1], members[place[vertex]! + 1]];
      const least = left === undefined ? -Infinity : x[left]! + room(left, vertex) - shift;
      const most = right === undefined ? Infinity : x[right]! - room(vertex, right) - shift;
      if (Math.max(low, least) > Math.min(high, most)) break;
      [low, high] = [Math.max(low, least), Math.min(high, most)];
    }
    end = Math.max(end, first + 1);
    if (low <= high) {
      const run = chain.slice(first, end);
      const wanted = run.map(({ vertex, shift }) => x[vertex]! - shift).sort((a, b) => a - b)[run.length >> 1]!;
      const at = Math.min(Math.max(wanted, low), high);
      for (const { vertex, shift } of run) x[vertex] = at + shift;
    }
    first = end;
  }
}
