// Made from explorer/ir/record.py by `python -m explorer.notebook.types`; edit that file instead.

export const VERSION = 1;
export const MIME = "application/vnd.explorer.record+json";

/** [text, id, origins] */
export type LineData = readonly [text: string, id?: string, origins?: readonly string[]];

/** `language` is a Pygments lexer's name. */
export interface TextData {
  readonly lines: readonly LineData[];
  readonly language?: string;
}

export interface SpanData {
  readonly file: string;
  readonly line: number;
  readonly end_line: number;
  readonly column?: number;
  readonly end_column?: number;
}

/** A stretch of a source file: its lines from `first_line` (1-based). */
export interface SourceData {
  readonly file: string;
  readonly first_line: number;
  readonly text: string;
}

/** A catalogue code, its title, and the particulars. */
export interface WhyData {
  readonly code: string;
  readonly title: string;
  readonly detail?: string;
}

/** A graph node. `inputs` are node ids; `type` reads like "f32[4, 8]"; `bytes` by size hints. */
export interface NodeData {
  readonly id: string;
  readonly name: string;
  readonly op: string;
  readonly target: string;
  readonly type: string;
  readonly inputs: readonly string[];
  readonly origins: readonly string[];
  readonly module?: string;
  readonly about?: string;
  readonly bytes?: number;
  readonly span?: SpanData | null;
}

export interface GraphData {
  readonly name: string;
  readonly nodes: readonly NodeData[];
  readonly outputs: readonly string[];
}

/** A node of eager's autograd graph; `inputs` are the nodes its gradients flow to. */
export interface GradNodeData {
  readonly id: string;
  readonly name: string;
  readonly origins: readonly string[];
  readonly inputs: readonly string[];
}

export interface InstructionData {
  readonly id: string;
  readonly op: string;
  readonly arg: string;
  readonly target?: string;
  readonly origins?: readonly string[];
  readonly span?: SpanData | null;
  readonly stack?: readonly [number, number];
}

/** `role` is "original", "rewritten", "continuation" or "inlined". */
export interface CodeData {
  readonly name: string;
  readonly role: string;
  readonly file: string;
  readonly line: number;
  readonly instructions: readonly InstructionData[];
}

/** `source` is Python text of what is checked; `property`, `relation`, `value` what is asked of it. */
export interface GuardData {
  readonly id: string;
  readonly source: string;
  readonly property: string;
  readonly relation: string;
  readonly value: string;
  readonly expression: string;
  readonly why: string;
  readonly cause?: string;
  readonly span?: SpanData | null;
}

export interface BreakData {
  readonly why: WhyData;
  readonly instruction: string;
  readonly span: SpanData | null;
  readonly stack: readonly string[];
  readonly hints: readonly string[];
  readonly continuation?: string;
}

export interface EffectData {
  readonly kind: string;
  readonly expression: string;
  readonly origins: readonly string[];
}

/** A symbolic size. `status` is "dynamic" or "specialised"; `why` says what made it so. */
export interface SymbolData {
  readonly name: string;
  readonly hint: number | null;
  readonly source: string;
  readonly range: string;
  readonly status: string;
  readonly why: string;
}

/** A value the backward needs. `fate` is "kept", "input" (alive anyway) or "recomputed". */
export interface SavedData {
  readonly id: string;
  readonly fate: string;
  readonly bytes: number;
  readonly why: WhyData;
}

/** `why` says why it is in memory at all; `where` is the memory plan's place, `first` and `last` its life in the
 * schedule. */
export interface BufferData {
  readonly name: string;
  readonly type: string;
  readonly kind: string;
  readonly origins: readonly string[];
  readonly why?: WhyData | null;
  readonly where?: string;
  readonly where_why?: WhyData | null;
  readonly offset?: number;
  readonly of?: string;
  readonly bytes?: number;
  readonly first?: number;
  readonly last?: number;
}

/** A loop or a library call. */
export interface OperationData {
  readonly id: string;
  readonly kind: string;
  readonly target: string;
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  readonly origins: readonly string[];
  readonly why?: WhyData | null;
}

export interface FusionData {
  readonly first: string;
  readonly second: string;
  readonly ok: boolean;
  readonly why: WhyData;
  readonly score?: number;
}

/** One entry of the schedule: a kernel with its operations, or a library call. */
export interface ItemData {
  readonly id: string;
  readonly kind: string;
  readonly operations: readonly string[];
  readonly outer?: string;
  readonly inner?: string;
  readonly internal?: readonly string[];
}

export interface ScheduleData {
  readonly items: readonly ItemData[];
  readonly fusions: readonly FusionData[];
}

export interface MemoryData {
  readonly pool: number;
  readonly peak_before: number;
  readonly peak_after: number;
}

/** `seconds` is the median of one launch, where it was timed. `lowered` gives the machine's texts by kind ("asm",
 * "ttir", "ttgir", "llir", "ptx", "sass"). */
export interface KernelData {
  readonly id: string;
  readonly function: string;
  readonly language: string;
  readonly source: TextData;
  readonly origins: readonly string[];
  readonly bytes: number;
  readonly flops: number;
  readonly seconds?: number | null;
  readonly lowered?: { readonly [key: string]: TextData };
}

export interface BuildData {
  readonly tool: string;
  readonly command: readonly string[];
  readonly version: string;
  readonly output: string;
  readonly seconds: number;
  readonly cached: boolean;
}

/** One half (inference, forward or backward) from lowering to the built program. */
export interface HalfData {
  readonly name: string;
  readonly target: string;
  readonly buffers?: readonly BufferData[];
  readonly operations?: readonly OperationData[];
  readonly schedule?: ScheduleData | null;
  readonly memory?: MemoryData | null;
  readonly kernels?: readonly KernelData[];
  readonly wrapper?: TextData | null;
  readonly builds?: readonly BuildData[];
  readonly extern_seconds?: { readonly [key: string]: number };
  readonly nodes?: { readonly [key: string]: readonly [string, readonly string[]] };
  readonly runs?: boolean;
}

/** One call of a stage. `half` names the half it belongs to; `error` is what ended it.
 * 
 * `same_as` is the id of the earlier stage whose artifact this one left as it was; `body` and `graph` are then absent. */
export interface StageData {
  readonly id: string;
  readonly name: string;
  readonly started: number;
  readonly seconds: number;
  readonly depth: number;
  readonly half?: string;
  readonly body?: TextData | null;
  readonly graph?: GraphData | null;
  readonly error?: string;
  readonly same_as?: string;
}

/** An attempt: its type's name and its fields as text. */
export interface EventData {
  readonly kind: string;
  readonly fields: { readonly [key: string]: string };
}

/** Everything of one compile of a frame ("f0"), a recompile of it ("f0.1") or a graph ("g0"). */
export interface CompileData {
  readonly id: string;
  readonly title: string;
  readonly started: number;
  readonly seconds: number;
  readonly stages?: readonly StageData[];
  readonly codes?: readonly CodeData[];
  readonly guards?: readonly GuardData[];
  readonly breaks?: readonly BreakData[];
  readonly effects?: readonly EffectData[];
  readonly symbols?: readonly SymbolData[];
  readonly saved?: readonly SavedData[];
  readonly eager_backward?: readonly GradNodeData[];
  readonly halves?: readonly HalfData[];
  readonly events?: readonly EventData[];
  readonly left_out?: { readonly [key: string]: number };
  readonly error?: string;
  readonly fallback?: WhyData | null;
}

/** Seconds of one contestant: "eager", "explorer" or "stock". Spread is the interquartile range. */
export interface SamplesData {
  readonly name: string;
  readonly median: number;
  readonly spread: number;
  readonly samples: readonly number[];
  readonly compile_seconds?: number | null;
  readonly note?: string;
}

/** Against eager: the largest absolute and relative error over outputs and gradients, and where the first node parts
 * from eager beyond tolerance ("" where none does). */
export interface AccuracyData {
  readonly largest_absolute: number;
  readonly largest_relative: number;
  readonly where: string;
  readonly first_parting?: string;
  readonly compared?: number;
}

/** Measured peaks: bytes and floating-point operations a second. */
export interface MachineData {
  readonly name: string;
  readonly bytes_per_second: number;
  readonly flops_per_second: number;
}

export interface TimingData {
  readonly contestants: readonly SamplesData[];
  readonly overhead?: number | null;
  readonly machine?: MachineData | null;
  readonly accuracy?: AccuracyData | null;
  readonly method?: string;
}

/** ATen calls by where they run, and frames that ran in the interpreter outside graphs. */
export interface CoverageData {
  readonly kernel?: number;
  readonly extern?: number;
  readonly view?: number;
  readonly fallback?: number;
  readonly python?: readonly string[];
}

export interface ReasonData {
  readonly code: string;
  readonly title: string;
  readonly meaning: string;
  readonly hint: string;
}

export interface RecordData {
  readonly version: number;
  readonly title: string;
  readonly engine: string;
  readonly target: string;
  readonly created: string;
  readonly environment: { readonly [key: string]: string };
  readonly config: { readonly [key: string]: string };
  readonly sources: readonly SourceData[];
  readonly compiles: readonly CompileData[];
  readonly coverage: CoverageData;
  readonly timing?: TimingData | null;
  readonly result?: string;
  readonly error?: string;
  readonly reasons?: readonly ReasonData[];
}
