// What each kernel and library call costs, beside what the machine could do at best.

import { own } from "../../collections";
import type { CompileData, HalfData, MachineData, RecordData } from "../../record";
import { halfName } from "../../stages";
import { operator } from "../../element";

export interface Cost {
  readonly compile: string;
  readonly half: string;
  /** Of the kernel or of the library call. */
  readonly id: string;
  readonly kind: "kernel" | "call";
  readonly runs: string;
  readonly seconds: number | null;
  /** Bytes moved and operations done, as the compiler counted them. Of a library call no bytes are known, and
   * operations where it is a product, a convolution or attention. */
  readonly bytes: number | null;
  readonly flops: number | null;
}

/** In the order in which they run. */
export function costsOf(record: RecordData): Cost[] {
  return record.compiles.flatMap(compile => (compile.halves ?? []).flatMap(half => ofHalf(compile, half)));
}

function ofHalf(compile: CompileData, half: HalfData): Cost[] {
  const kernels = new Map((half.kernels ?? []).map(each => [each.id, each]));
  const operations = new Map((half.operations ?? []).map(each => [each.id, each]));
  const place = { compile: compile.id, half: halfName(compile, half.name) };
  const called = (id: string) => {
    const node = operations.get(id)?.origins.find(each => !each.startsWith("synthetic:"));
    return node === undefined ? id : operator(node);
  };
  return (half.schedule?.items ?? []).flatMap((item): Cost[] => {
    const kernel = kernels.get(item.id);
    if (kernel) {
      return [{ ...place, id: item.id, kind: "kernel", runs: item.operations.map(called).join(", "),
        seconds: kernel.seconds ?? null, bytes: kernel.bytes, flops: kernel.flops }];
    }
    if (item.kind !== "extern") return [];
    const runs = operations.get(item.id)?.target ?? item.operations.join(", ");
    return [{ ...place, id: item.id, kind: "call", runs, seconds: own(half.extern_seconds, item.id) ?? null,
      bytes: null, flops: own(half.extern_flops, item.id) ?? null }];
  });
}

export interface Performance {
  /** Null where it is not known what it moves. */
  readonly bytesPerSecond: number | null;
  readonly flopsPerSecond: number;
  /** Operations a byte; 0 where it only moves bytes, null where it is not known what it moves. */
  readonly intensity: number | null;
  /** Seconds that it would take at the machine's peak, as a share of what it takes. */
  readonly share: number;
  readonly bound: "bandwidth" | "arithmetic";
}

/** Where a kernel or a library call stands against the machine's peaks, as show/view/sections.py (`_of_peak`) says
 * it. */
export function performance(cost: Cost, machine: MachineData): Performance | null {
  const { seconds, bytes, flops } = cost;
  if (seconds === null || !(seconds > 0) || !((bytes ?? flops ?? 0) > 0) || !usable(machine)) return null;
  const [moving, computing] = [(bytes ?? 0) / machine.bytes_per_second, (flops ?? 0) / machine.flops_per_second];
  return {
    bytesPerSecond: rate(bytes, seconds), flopsPerSecond: (flops ?? 0) / seconds,
    intensity: bytes === null ? null : (flops ?? 0) / bytes,
    share: Math.max(moving, computing) / seconds, bound: moving >= computing ? "bandwidth" : "arithmetic",
  };
}

/** So much a second. */
export function rate(amount: number | null, seconds: number | null): number | null {
  return amount === null || seconds === null || !(seconds > 0) ? null : amount / seconds;
}

export const usable = (machine: MachineData): boolean => machine.bytes_per_second > 0 && machine.flops_per_second > 0;

/** Operations a second that the machine allows at best at an intensity. */
export function roof(machine: MachineData, intensity: number): number {
  return Math.min(machine.flops_per_second, intensity * machine.bytes_per_second);
}

/** The intensity from which arithmetic bounds, not bandwidth. */
export const ridge = (machine: MachineData): number => machine.flops_per_second / machine.bytes_per_second;

/** Why the time outside the kernels is not told; "" where it is. */
export function whyNoOverhead(record: RecordData, costs: readonly Cost[]): string {
  const timing = record.timing;
  if (!timing || (timing.overhead !== null && timing.overhead !== undefined)) return "";
  const timed = costs.filter(each => each.seconds !== null);
  if (timed.length === 0) return "no kernel was timed by itself";
  const sum = timed.reduce((total, each) => total + (each.seconds ?? 0), 0);
  const call = (timing.contestants.find(each => each.name === "explorer")
    ?? timing.contestants.find(each => each.name === "stock"))?.median;
  if (call !== undefined && sum >= call) return "the kernels, timed one by one, take longer than the whole call";
  return timed.length < costs.length ? "not every kernel could be timed by itself" : "the record does not say";
}
