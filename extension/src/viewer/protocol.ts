// Made from explorer/show/notebook/protocol.py by `python -m explorer.show.notebook.types`; edit that file instead.

import type { CompileData, PartData, RecordData, StageData, TimingData } from "./record";

/** The record as it is by now: replaces what the page has. */
export interface Whole {
  readonly type: "record"; readonly record: RecordData;
}

/** A stage of `compile` began, or with stage "" something between stages: `what` says which ("timing eager"). */
export interface Running {
  readonly type: "running"; readonly compile: string; readonly stage: string; readonly what?: string;
}

/** A stage ended: `compile` has no stages of its own here, only what heads it; `glance` is what is known by now. */
export interface StageDone {
  readonly type: "stage"; readonly compile: CompileData; readonly stage: StageData;
  readonly glance?: readonly PartData[];
}

/** Seconds of single calls of a contestant, in the order they were taken; `run` as in Retime, "" for the first. */
export interface Samples {
  readonly type: "samples"; readonly run: string; readonly name: string; readonly seconds: readonly number[];
}

/** A timing run ended: all of it. */
export interface Timed {
  readonly type: "timed"; readonly run: string; readonly timing: TimingData;
}

/** What was asked for ended; with `error` it failed, was interrupted or was stopped, and the message says which. */
export interface Done {
  readonly type: "done"; readonly run?: string; readonly error?: string;
}

/** A tensor argument that can be made again with other sizes. */
export interface SizedArgument {
  readonly name: string; readonly dtype: string; readonly shape: readonly number[];
}

/** A function that was compiled, or all of the cell: its text, from the line `first` of `file` on. */
export interface Function {
  readonly name: string; readonly file: string; readonly first: number; readonly text: string;
}

/** What this kernel can do for the page. It can compile changes where `passes` names the passes that may be left
 * out; else `no_edit` says why it cannot. */
export interface Abilities {
  readonly type: "abilities"; readonly arguments?: readonly SizedArgument[]; readonly retime?: boolean;
  readonly stop?: boolean; readonly why_not?: string; readonly functions?: readonly Function[];
  readonly passes?: readonly string[]; readonly no_edit?: string;
}

/** The record of the changed program, and what it answers differently, a line for each. */
export interface Edited {
  readonly type: "edited"; readonly run: string; readonly record: RecordData; readonly changes: readonly string[];
}

/** All of the record, of which an output may hold a part: its JSON, compressed by gzip, in base64. */
export interface Kept {
  readonly type: "kept"; readonly packed: string;
}

/** What was asked for with Make; with `error` it could not be made, and the message says why. */
export interface Made {
  readonly type: "made"; readonly run: string; readonly text?: string; readonly error?: string;
}

/** A page opened: answered with Whole and Abilities. */
export interface Hello {
  readonly type: "hello";
}

/** Time again with tensors of these sizes (by argument name; others stay as they were). */
export interface Retime {
  readonly type: "retime"; readonly run: string; readonly shapes: { readonly [key: string]: readonly number[] };
}

/** Compile with changes, each from the program as it was explored: `text` in the place of the function at the line
 * `first` of `file` (of none where `file` is ""), settings, passes left out, pairs of operations (graph, first,
 * second) that are not to be fused. With `time` also run it. Without changes: show the record as it was. */
export interface Edit {
  readonly type: "edit"; readonly run: string; readonly file?: string; readonly first?: number; readonly text?: string;
  readonly dynamic?: boolean | null; readonly fuse?: boolean; readonly without?: readonly string[];
  readonly forbid?: readonly (readonly [string, string, string])[]; readonly time?: boolean;
}

/** End what runs. */
export interface Stop {
  readonly type: "stop"; readonly run?: string;
}

/** Send all of the record, to be saved: answered with Kept. */
export interface Keep {
  readonly type: "keep";
}

/** Make a text of the record: "trace" of all of it, a "program" of the graph or kernel `id` of a compile, the
 * "throughput" of a kernel: answered with Made. */
export interface Make {
  readonly type: "make"; readonly run: string; readonly what: string; readonly compile?: string; readonly id?: string;
}

export type ToPage = Whole | Running | StageDone | Samples | Timed | Done | Abilities | Edited | Kept | Made;
export type ToKernel = Hello | Retime | Edit | Stop | Keep | Make;
