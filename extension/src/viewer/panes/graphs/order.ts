// The order of vertices within layers: barycentres, then swaps of neighbors, keeping the order with the fewest
// crossings.

const SWEEPS = 12;
const PATIENCE = 3;
const SWAPS = 4;

type LayerLists = number[][];

/** A box, or a bend of an edge that passes a layer. */
export interface LayerVertex {
  readonly width: number;
  readonly bend: boolean;
  readonly light: boolean;
  layer: number;
}

/** Part of an edge between neighboring layers; `upperAt` and `lowerAt` count from the vertices' centers. */
export interface Segment {
  readonly upper: number;
  readonly upperAt: number;
  readonly lower: number;
  readonly lowerAt: number;
}

/** For each vertex the ends of its edges on one side. `at` says where on the neighbor, `own` where on the vertex,
 * both as a part of its place: a neighbor's end is at its place in the layer plus `at`. */
interface Incidence {
  readonly start: Int32Array;
  readonly vertex: Int32Array;
  readonly at: Float64Array;
  readonly own: Float64Array;
}

export function ordered(vertices: readonly LayerVertex[], segments: readonly Segment[]): LayerLists {
  const above = sideOf(vertices, segments, true);
  const below = sideOf(vertices, segments, false);
  let layers = initial(vertices, above, below);
  let best = layers;
  let fewest = crossed(layers, below, vertices.length);
  for (let sweep = 0, worse = 0; sweep < SWEEPS && fewest > 0 && worse < PATIENCE; sweep++) {
    layers = swapped(swept(layers, sweep % 2 === 0 ? above : below, sweep % 2 === 0, vertices.length), above, below,
      vertices.length);
    const found = crossed(layers, below, vertices.length);
    if (found < fewest) [best, fewest, worse] = [layers, found, 0];
    else worse++;
  }
  return best;
}

/** How often segments cross. */
export function crossings(vertices: readonly LayerVertex[], segments: readonly Segment[], layers: LayerLists): number {
  return crossed(layers, sideOf(vertices, segments, false), vertices.length);
}

function sideOf(vertices: readonly LayerVertex[], segments: readonly Segment[], above: boolean): Incidence {
  const { start, order } = adjacency(vertices.length, segments, above);
  const part = (vertex: number, at: number) => at / (vertices[vertex]!.width + 20);
  const upper = Float64Array.from(order, n => part(segments[n]!.upper, segments[n]!.upperAt));
  const lower = Float64Array.from(order, n => part(segments[n]!.lower, segments[n]!.lowerAt));
  const vertex = order.map(n => (above ? segments[n]!.upper : segments[n]!.lower));
  return { start, vertex, at: above ? upper : lower, own: above ? lower : upper };
}

/** By vertex, the segments on one side of it: `order[start[vertex]]` and on, up to the start of the next. */
export function adjacency(count: number, segments: readonly Segment[],
    above: boolean): { start: Int32Array; order: Int32Array } {
  const start = new Int32Array(count + 1);
  const of = (segment: Segment) => (above ? segment.lower : segment.upper);
  for (const segment of segments) start[of(segment) + 1]!++;
  for (let n = 0; n < count; n++) start[n + 1]! += start[n]!;
  const next = start.slice();
  const order = new Int32Array(segments.length);
  segments.forEach((segment, n) => (order[next[of(segment)]!++] = n));
  return { start, order };
}

/** Depth first from the first boxes on, so that what hangs together stands together. */
function initial(vertices: readonly LayerVertex[], above: Incidence, below: Incidence): LayerLists {
  const count = vertices.reduce((most, { layer }) => Math.max(most, layer + 1), 0);
  const layers: LayerLists = Array.from({ length: count }, () => []);
  const seen = new Uint8Array(vertices.length);
  const visit = (first: number) => {
    const stack = [first];
    for (let vertex = stack.pop(); vertex !== undefined; vertex = stack.pop()) {
      if (seen[vertex]) continue;
      seen[vertex] = 1;
      layers[vertices[vertex]!.layer]!.push(vertex);
      for (let at = below.start[vertex + 1]! - 1; at >= below.start[vertex]!; at--) stack.push(below.vertex[at]!);
    }
  };
  vertices.forEach((_, vertex) => {
    if (above.start[vertex] === above.start[vertex + 1]) visit(vertex);
  });
  vertices.forEach((_, vertex) => visit(vertex));
  return layers;
}

function placesOf(layers: LayerLists, count: number): Float64Array {
  const place = new Float64Array(count);
  for (const members of layers) members.forEach((vertex, n) => (place[vertex] = n));
  return place;
}

/** Each vertex at the mean place of its neighbors on one side, layer by layer. One without neighbors keeps its
 * place. */
function swept(from: LayerLists, side: Incidence, down: boolean, count: number): LayerLists {
  const place = placesOf(from, count);
  const want = new Float64Array(count);
  const layers = from.map(members => [...members]);
  for (const members of (down ? layers : [...layers].reverse()).slice(1)) {
    for (const vertex of members) {
      const [start, end] = [side.start[vertex]!, side.start[vertex + 1]!];
      let sum = 0;
      for (let at = start; at < end; at++) sum += place[side.vertex[at]!]! + side.at[at]!;
      want[vertex] = end > start ? sum / (end - start) : place[vertex]!;
    }
    members.sort((a, b) => want[a]! - want[b]! || place[a]! - place[b]!);
    members.forEach((vertex, n) => (place[vertex] = n));
  }
  return layers;
}

/** Neighbors swapped wherever that saves crossings. */
function swapped(from: LayerLists, above: Incidence, below: Incidence, count: number): LayerLists {
  const layers = from.map(members => [...members]);
  const place = placesOf(layers, count);
  const sides = [above, below].map(side => ({ start: side.start, ends: new Float64Array(side.vertex.length), side }));
  for (const members of layers) {
    for (const { side, ends } of sides) for (const vertex of members) sortEnds(side, vertex, place, ends);
    for (let round = 0, better = true; better && round < SWAPS; round++) {
      better = false;
      for (let n = 0; n + 1 < members.length; n++) {
        const [a, b] = [members[n]!, members[n + 1]!];
        let gain = 0;
        for (const { start, ends } of sides) gain += gained(ends, start[a]!, start[a + 1]!, start[b]!, start[b + 1]!);
        if (gain <= 0) continue;
        members[n] = b;
        members[n + 1] = a;
        better = true;
      }
    }
    members.forEach((vertex, n) => (place[vertex] = n));
  }
  return layers;
}

/** Writes the places of a vertex's ends into its part of `ends`, in order. */
function sortEnds(side: Incidence, vertex: number, place: Float64Array, ends: Float64Array): void {
  const [start, end] = [side.start[vertex]!, side.start[vertex + 1]!];
  for (let n = start; n < end; n++) ends[n] = place[side.vertex[n]!]! + side.at[n]!;
  if (end - start > 1) ends.subarray(start, end).sort();
}

/** By how much crossings fall when `b` comes before `a`: pairs of ends in the wrong order, less those in the right
 * one. */
function gained(ends: Float64Array, a: number, aEnd: number, b: number, bEnd: number): number {
  let gain = 0;
  for (let lower = b, upper = b; a < aEnd; a++) {
    const end = ends[a]!;
    while (lower < bEnd && ends[lower]! < end) lower++;
    while (upper < bEnd && ends[upper]! <= end) upper++;
    gain += lower - b - (bEnd - upper);
  }
  return gain;
}

function crossed(layers: LayerLists, below: Incidence, count: number): number {
  const place = placesOf(layers, count);
  const ends = new Float64Array(below.vertex.length);
  const spare = new Float64Array(below.vertex.length);
  let total = 0;
  for (const members of layers) {
    let size = 0;
    for (const vertex of members) {
      const [start, end] = [below.start[vertex]!, below.start[vertex + 1]!];
      const first = size;
      for (let n = start; n < end; n++) ends[size++] = place[below.vertex[n]!]! + below.at[n]!;
      if (size - first > 1) inOwnOrder(ends, first, below, start, end);
    }
    total += inversions(ends, spare, 0, size);
  }
  return total;
}

/** Brings one vertex's ends, from `first` on, into the order in which they leave it. */
function inOwnOrder(ends: Float64Array, first: number, side: Incidence, start: number, end: number): void {
  const order = Array.from({ length: end - start }, (_, n) => n);
  const values = ends.slice(first, first + order.length);
  order.sort((a, b) => side.own[start + a]! - side.own[start + b]! || values[a]! - values[b]!);
  order.forEach((n, at) => (ends[first + at] = values[n]!));
}

/** Pairs in the wrong order, counted while merging; sorts its part of `values`. */
function inversions(values: Float64Array, spare: Float64Array, from: number, to: number): number {
  if (to - from < 2) return 0;
  const middle = (from + to) >> 1;
  let total = inversions(values, spare, from, middle) + inversions(values, spare, middle, to);
  let [left, right] = [from, middle];
  for (let at = from; at < to; at++) {
    if (right >= to || (left < middle && values[left]! <= values[right]!)) {
      spare[at] = values[left++]!;
    } else {
      spare[at] = values[right++]!;
      total += middle - left;
    }
  }
  values.set(spare.subarray(from, to), from);
  return total;
}
