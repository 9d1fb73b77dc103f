// What a compile spent its time on, as spans: compiles one after another, their stages below them.

import { entry, least, most, sum } from "../../collections";
import type { BuildData, CompileData, RecordData, StageData } from "../../record";
import { compileName, halfName } from "../../stages";

export type PipelinePart = "capture" | "graph" | "loops" | "code" | "link" | "other";

export interface Span {
  readonly compile: CompileData;
  /** Absent for the compile as a whole. */
  readonly stage?: StageData;
  readonly name: string;
  readonly part: PipelinePart;
  /** Seconds since the first compile began. */
  readonly from: number;
  readonly seconds: number;
  readonly row: number;
}

export interface Timeline {
  readonly spans: readonly Span[];
  readonly rows: number;
  /** Stretches in which something was compiled; between them the program ran. */
  readonly busy: readonly (readonly [from: number, to: number])[];
}

const PARTS: { readonly [stage: string]: PipelinePart } = {
  decode: "capture", bytecode: "capture", capture: "capture",
  schedule: "loops", lower: "loops", dependencies: "loops", fuse: "loops", separate: "loops", order: "loops",
  "plan memory": "loops",
  generate: "code", build: "code", rejoin: "link", link: "link", "rewritten bytecode": "link",
};

/** Of ours and of stock. Between capture and lowering everything works on a graph: tracing, passes (a user's too),
 * the partition. */
function partOf(stage: StageData): PipelinePart {
  return Object.hasOwn(PARTS, stage.name)
    ? (PARTS[stage.name] ?? "other") : stage.graph || stage.same_as || stage.halves ? "graph" : "other";
}

export function timelineOf(record: RecordData): Timeline {
  const compiles = record.compiles.filter(each => (each.stages ?? []).length > 0).sort((a, b) => a.started - b.started);
  const start = least(compiles.map(each => each.started));
  const tracks = tracksOf(compiles);
  const heights = tracks.map(track => most(track.flatMap(each => (each.stages ?? []).map(stage => 2 + stage.depth))));
  const tops = tracks.map((_, n) => sum(heights.slice(0, n), each => each));
  const spans = tracks.flatMap((track, n) => track.flatMap(compile => spansOf(compile, start, tops[n] ?? 0)));
  return {
    spans, rows: sum(heights, each => each),
    busy: joined(compiles.map(each => [each.started - start, endOf(each) - start] as const)),
  };
}

/** Compiles that do not overlap share rows; one that began while another ran gets rows below it. */
function tracksOf(compiles: readonly CompileData[]): CompileData[][] {
  const tracks: CompileData[][] = [];
  for (const compile of compiles) {
    const free = tracks.find(track => track.every(other => endOf(other) <= compile.started));
    if (free) free.push(compile);
    else tracks.push([compile]);
  }
  return tracks;
}

function spansOf(compile: CompileData, start: number, top: number): Span[] {
  const whole: Span = {
    compile, name: compileName(compile), part: "other", from: compile.started - start,
    seconds: endOf(compile) - compile.started, row: top,
  };
  const stages = (compile.stages ?? []).map((stage): Span => {
    const half = halfName(compile, stage.half ?? "");
    return {
      compile, stage, name: half ? `${stage.name} ${half}` : stage.name, part: partOf(stage),
      from: stage.started - start, seconds: stage.seconds, row: top + 1 + stage.depth,
    };
  });
  return [whole, ...stages];
}

/** While a compile runs its length is not known: as far as its stages went. */
function endOf(compile: CompileData): number {
  return Math.max(compile.started + compile.seconds,
    ...(compile.stages ?? []).map(each => each.started + each.seconds));
}

function joined(stretches: readonly (readonly [number, number])[]): (readonly [number, number])[] {
  const found: [number, number][] = [];
  for (const [from, to] of [...stretches].sort((a, b) => a[0] - b[0])) {
    const last = found.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** Seconds of compiling before a moment: the time axis without the stretches in between. */
export function compilingBefore(busy: Timeline["busy"], moment: number): number {
  return busy.reduce((sum, [from, to]) => sum + Math.max(0, Math.min(moment, to) - from), 0);
}

export interface SpanRow {
  readonly compile: CompileData;
  readonly stage?: StageData;
  readonly build?: BuildData;
  readonly name: string;
  readonly from: number | null;
  readonly seconds: number;
  readonly note: string;
}

/** The same as rows of a table: each stage, the builds under the one that ran them, and what lies between stages. */
export function tableOf(record: RecordData): SpanRow[] {
  const ofCompile = new Map<CompileData, Span[]>();
  for (const each of timelineOf(record).spans) entry(ofCompile, each.compile, () => []).push(each);
  return [...ofCompile.values()].flatMap(([whole, ...own]): SpanRow[] => {
    const { compile } = whole!;
    const inStages = sum(own.filter(each => each.stage?.depth === 0), each => each.seconds);
    const rows = own.flatMap((span): SpanRow[] => {
      const { stage } = span;
      const note = stage?.error ? `failed: ${stage.error}` : stage?.same_as ? "changed nothing" : "";
      const half = compile.halves?.find(each => each.name === stage?.half);
      const builds = stage?.name === "build" ? (half?.builds ?? []) : [];
      return [
        { compile, stage, name: span.name, from: span.from, seconds: span.seconds, note },
        ...builds.map(
          build => ({ compile, build,
            name: build.version.startsWith(build.tool) ? build.version : `${build.tool} ${build.version}`, from: null,
            seconds: build.seconds, note: build.cached ? "from the cache" : "built" })),
      ];
    });
    const between = whole!.seconds - inStages;
    return [
      { compile, name: whole!.name, from: whole!.from, seconds: whole!.seconds,
        note: compile.error ? `failed: ${compile.error}` : "" },
      ...rows,
      ...(between > 0 ? [{ compile, name: "between stages", from: null, seconds: between, note: "" }] : []),
    ];
  });
}
