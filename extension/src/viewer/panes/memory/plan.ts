// Where each buffer lives and when, and how many bytes are in use at each step. Counted as
// explorer/compiler/schedule/memory.py (`peak`) counts: without inputs, sizes rounded as an allocator rounds them.

import { entry, least, most } from "../../collections";
import type { BufferData, HalfData } from "../../record";

const ALIGNMENT = 64;

export type PlaceKind = "pool" | "own" | "library" | "input";

/** Memory that one buffer, or several one after another, are in. */
export interface PoolPlace {
  readonly kind: PlaceKind;
  /** Bytes from the start of the pool. */
  readonly offset: number;
  readonly bytes: number;
  /** In the order in which they come to life; `lives[0]` is the one it was made for. */
  readonly lives: readonly BufferData[];
  readonly first: number;
  readonly last: number;
}

export interface Plan {
  /** Steps of the schedule; what lives on at position `steps` is returned. */
  readonly steps: number;
  readonly places: readonly PoolPlace[];
  readonly registers: readonly BufferData[];
  /** Bytes in use at each step and after the last: each buffer in memory of its own, and as planned. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  /** What one run held at each; empty where none was measured. */
  readonly measured: readonly number[];
}

export function planOf(half: HalfData): Plan {
  const steps = half.schedule?.items.length ?? 0;
  const buffers = half.buffers ?? [];
  const byName = new Map(buffers.map(each => [each.name, each]));
  const made = buffers.filter(each => each.where && each.where !== "none");
  const groups = new Map<BufferData, BufferData[]>();
  for (const each of made) entry(groups, ownerOf(each, byName, one => one.where === "reuse"), () => []).push(each);
  const places = [...groups].map(([owner, lives]) => place(owner, lives));
  const order: { readonly [kind in PlaceKind]: number } = { pool: 0, own: 1, library: 2, input: 3 };
  places.sort((a, b) => order[a.kind] - order[b.kind] || a.offset - b.offset || a.first - b.first);
  const alone = made.filter(each => !isAlias(each)).map(each => {
    const aliases = made.filter(other => isAlias(other) && ownerOf(other, byName, isAlias) === each);
    return { bytes: each.bytes ?? 0, first: each.first ?? 0,
      last: Math.max(each.last ?? 0, ...aliases.map(other => other.last ?? 0)) };
  });
  const pool = half.memory?.pool ?? 0;
  const owned = places.filter(each => each.kind === "own" || each.kind === "library");
  return {
    steps, places, registers: buffers.filter(each => each.where === "none"),
    before: inUse(alone, steps),
    after: inUse(owned, steps).map(bytes => bytes + pool),
    measured: half.memory?.measured?.slice(0, steps + 1) ?? [],
  };
}

/** Bytes in use at each step and after the last: the sum over what is alive there. */
export function inUse(spans: readonly { bytes: number; first: number; last: number }[], steps: number): number[] {
  const change = new Array<number>(steps + 2).fill(0);
  const within = (step: number) => Math.min(Math.max(step, 0), steps + 1);
  for (const { bytes, first, last } of spans) {
    const size = Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    change[within(first)]! += size;
    change[within(last + 1)]! -= size;
  }
  let now = 0;
  return change.slice(0, steps + 1).map(each => (now += each));
}

export const isAlias = (buffer: BufferData): boolean => buffer.where_why?.code === "memory.alias";

/** The buffer whose memory one is in: itself, or the one at the end of what it reuses, as far as that `goesOn`. */
function ownerOf(buffer: BufferData, byName: ReadonlyMap<string, BufferData>,
    goesOn: (at: BufferData) => boolean): BufferData {
  const seen = new Set<BufferData>();
  let at = buffer;
  while (goesOn(at) && !seen.has(at)) {
    seen.add(at);
    at = byName.get(at.of ?? "") ?? at;
  }
  return at;
}

function place(owner: BufferData, lives: readonly BufferData[]): PoolPlace {
  const kind = owner.where === "pool" || owner.where === "own" || owner.where === "library" ? owner.where : "input";
  const inOrder =
    [...lives].sort((a, b) => (a.first ?? 0) - (b.first ?? 0) || Number(b === owner) - Number(a === owner));
  return {
    kind, offset: owner.offset ?? 0, bytes: owner.bytes ?? 0, lives: inOrder,
    first: least(lives.map(each => each.first ?? 0)),
    last: most(lives.map(each => each.last ?? 0)),
  };
}

/** Places that can be drawn in one row, since no two are in use at a time: those at one offset of the pool. */
export function rowsOf(places: readonly PoolPlace[]): PoolPlace[][] {
  const rows: PoolPlace[][] = [];
  for (const each of places) {
    const row = rows.at(-1);
    const fits = each.kind === "pool" && row?.every(other =>
      other.kind === "pool" && other.offset === each.offset && (other.last < each.first || each.last < other.first));
    if (row && fits) row.push(each);
    else rows.push([each]);
  }
  return rows;
}
