// Made from explorer/ir/record.py by `python -m explorer.show.notebook.types`; edit that file instead.

import { again, between, type Check, either, entries, flag, list, maybe, real, row, shape, text, whole } from "./check";

export const VERSION = 2;
export const MIME = "application/vnd.explorer.record+json";
export const DIFF_MIME = "application/vnd.explorer.diff+json";

/** [text, id, origins] */
export type LineData = readonly [text: string, id?: string, origins?: readonly string[]];

/** `language` is a Pygments lexer's name. */
export interface TextData {
  readonly lines: readonly LineData[]; readonly language?: string;
}

export interface SpanData {
  readonly file: string; readonly line: number; readonly end_line: number; readonly column?: number;
  readonly end_column?: number;
}

/** A stretch of a source file: its lines from `first_line` (1-based). `name` is what a person calls the file where
 * its path says little: "In[3]" for a notebook's cell. */
export interface SourceData {
  readonly file: string; readonly first_line: number; readonly text: string; readonly name?: string;
}

/** A catalogue code, its title, and the particulars. */
export interface WhyData {
  readonly code: string; readonly title: string; readonly detail?: string;
}

/** A graph node. `inputs` are node ids; `type` reads like "f32[4, 8]"; `bytes` by size hints. */
export interface NodeData {
  readonly id: string; readonly name: string; readonly op: string; readonly target: string; readonly type: string;
  readonly inputs: readonly string[]; readonly origins: readonly string[]; readonly module?: string;
  readonly about?: string; readonly bytes?: number; readonly span?: SpanData | null;
}

export interface GraphData {
  readonly name: string; readonly nodes: readonly NodeData[]; readonly outputs: readonly string[];
}

/** A node of eager's autograd graph; `inputs` are the nodes its gradients flow to. */
export interface GradNodeData {
  readonly id: string; readonly name: string; readonly origins: readonly string[]; readonly inputs: readonly string[];
}

export interface InstructionData {
  readonly id: string; readonly op: string; readonly arg: string; readonly target?: string;
  readonly origins?: readonly string[]; readonly span?: SpanData | null; readonly stack?: readonly [number, number];
}

/** `role` is "original", "rewritten", "continuation" or "inlined" (evaluated inside the frame, at least once). */
export interface CodeData {
  readonly name: string; readonly role: string; readonly file: string; readonly line: number;
  readonly instructions: readonly InstructionData[]; readonly python?: string;
}

/** A tensor's description. `dtype` reads like "float32"; None in `sizes` and `strides` stands for any value;
 * `strides` is None where they do not matter or do not exist (sparse). `type` is the class's qualified name. */
export interface TensorFactsData {
  readonly dtype: string; readonly device: string; readonly sizes: readonly (number | null)[];
  readonly strides?: readonly (number | null)[] | null; readonly requires_grad?: boolean; readonly type?: string;
}

/** A plain value. `type` is its class's name ("int", "NoneType"), `text` its repr. `value` is the value itself where
 * JSON has it: a bool, an int up to 2**53 in size, a finite float, a str; None otherwise. Two constants are the same
 * if type and value are the same, and the text too where `value` is None. */
export interface ConstantData {
  readonly type: string; readonly text: string; readonly value?: boolean | number | string | null;
}

/** A tree over sizes, all of whose numbers are exact.
 * 
 * Leaves: "number" (`value`), "size" and "stride" (dimension `value` of tensor `source`), "value" (the number that is
 * `source`). Inner nodes, by their operator over `arguments`: "+" and "*" (two or more), "-" (one), "//" and "%"
 * (rounding down, the sign of the divisor), "/", "**", "min", "max", "abs", "floor", "ceil"; "<", "<=", ">", ">=",
 * "==", "!="; "and", "or", "not"; "if" (condition, then, else). "?" stands for what this grammar lacks (`text` says
 * what): whether it holds is then unknown. */
export interface ExpressionData {
  readonly op: string; readonly arguments?: readonly ExpressionData[]; readonly value?: number;
  readonly source?: string; readonly text?: string;
}

/** What a program's results depend on beside its inputs. */
export interface GlobalStateData {
  readonly grad_enabled: boolean; readonly autocast?: readonly string[]; readonly default_dtype?: string;
  readonly deterministic?: boolean; readonly threads?: number; readonly devices?: readonly string[];
}

/** A value that a frame was given, or the description of one.
 * 
 * `kind` is "tensor" (`tensor` says more), "number", "bool", "str" or "none" (`constant`), "list" or "tuple"
 * (`length`), "dict" (`keys`), "object" (`type`). `role` is "argument" (a local of the frame), "global", "closure", or
 * "reached" (through one of these; a parameter of a module, say). `name` is the graph's placeholder, where it is an
 * input of it. `same_as` is the source of an earlier input that is the same object. */
export interface InputData {
  readonly source: string; readonly kind: string; readonly role?: string; readonly type?: string;
  readonly tensor?: TensorFactsData | null; readonly constant?: ConstantData | null; readonly length?: number | null;
  readonly keys?: readonly ConstantData[] | null; readonly name?: string; readonly same_as?: string;
}

/** `source` is Python text of what is checked; `property`, `relation`, `value` say what must hold; `seen` is its
 * value at capture. `cause` is the instruction that needs it, or "synthetic:REASON"; `span` is None only then.
 * 
 * What a check needs beside `source`, by `property`:
 * tensor: `tensor`, each given fact equal. type: `type`, the qualified name. constant: `constant`. length: `length`.
 * keys: `keys`, in this order. empty: `length` is 0 for "is empty", 1 for "is not empty". has: `keys` holds the one
 * key or attribute name, `relation` is "has key", "lacks key", "has attribute" or "lacks attribute". shape: `shape`,
 * true. alias: `others` holds the one source that it is the same object as (`relation` "is"), or the tensor sources
 * that are all different objects ("are distinct"). global_state: `state`. id, code: the object itself, which a
 * description can only give where `constant` does (None, True, False). value: a check in Python, named by `relation`
 * and `value`. */
export interface GuardData {
  readonly id: string; readonly source: string; readonly property: string; readonly relation: string;
  readonly value: string; readonly expression: string; readonly why: string; readonly cause?: string;
  readonly span?: SpanData | null; readonly seen?: string; readonly tensor?: TensorFactsData | null;
  readonly type?: string; readonly constant?: ConstantData | null; readonly length?: number | null;
  readonly keys?: readonly ConstantData[] | null; readonly shape?: ExpressionData | null;
  readonly others?: readonly string[]; readonly state?: GlobalStateData | null; readonly words?: string;
  readonly of_torch?: boolean; readonly step?: number;
}

/** What the `checks` of one `source` add to a call, reading it included; "" is what is asked of torch's state and of
 * several values at once. `whole`: with all that is read from it. */
export interface GuardCostData {
  readonly source: string; readonly checks: number; readonly seconds: number; readonly whole?: boolean;
}

/** Why the earlier compile `of` the same frame did not accept this call: a guard of it that failed ("" where it
 * cannot be told which), and how, with the values. One for each such guard, first that at which the check stops.
 * `seen` is what the guard's source was at this call, where that can be told; `words` what failed, where `why` does
 * not say it as a person would. */
export interface RecompileData {
  readonly of: string; readonly guard: string; readonly expression: string; readonly why: string;
  readonly seen?: string; readonly words?: string;
}

/** A frame that the evaluator entered: the root (`depth` 0), or a function inlined into `caller` (an index into the
 * compile's activations). A second root means that the evaluation started over, to end the graph earlier. */
export interface ActivationData {
  readonly function: string; readonly depth?: number; readonly caller?: number;
}

/** What capturing one function took, over its `calls` inlined into the frame: `seconds` in its own instructions, and
 * `whole` with those of the functions that it calls. Recording is part of both. */
export interface FunctionCostData {
  readonly function: string; readonly calls: number; readonly seconds: number; readonly whole: number;
}

/** [text, step, items]: a value of the evaluator, as one step saw it. `step` is the step that brought it about; -1
 * where none did: it was there at entry, or is None. Every field `step` of a record is an index into the compile's
 * steps. `items` are the first of what a container held: what leads to each, and an index of a value before this. */
export type ValueData = readonly [text: string, step?: number, items?: readonly (readonly [string, number])[]];

/** [instruction, activation, nodes, kept, pushed, locals]: the evaluator's state before it ran `instruction`.
 * 
 * The state is kept by activation (an index), each step a change to what that activation's last step left: the lowest
 * `kept` values of the stack stay, `pushed` (indices of values) come on top; `locals` were bound since (-1 unbinds).
 * `nodes` is how many nodes the graph had, placeholders not counted; some may be dropped later, as nothing uses them.
 */
export type StepData = readonly [instruction: string, activation: number, nodes: number, kept?: number, pushed?:
  readonly number[], locals?: { readonly [key: string]: number }];

export interface BreakData {
  readonly why: WhyData; readonly instruction: string; readonly span: SpanData | null;
  readonly stack: readonly string[]; readonly hints: readonly string[]; readonly continuation?: string;
  readonly rewrite?: readonly string[]; readonly cell?: string; readonly tried?: string; readonly step?: number;
}

export interface EffectData {
  readonly kind: string; readonly expression: string; readonly origins: readonly string[]; readonly step?: number;
}

/** A symbolic size. `status` is "dynamic", "specialized" or "equal to" another; `why` says what made it so. */
export interface SymbolData {
  readonly name: string; readonly hint: number | null; readonly source: string; readonly range: string;
  readonly status: string; readonly why: string; readonly step?: number;
}

/** A value the backward needs. `kind` is "saved", "input" (alive anyway) or "recomputed". `seconds` is what a saved
 * value takes to compute again, operator by operator, from inputs and what else is saved; None where not measured. */
export interface SavedData {
  readonly id: string; readonly kind: string; readonly bytes: number; readonly why: WhyData;
  readonly seconds?: number | null;
}

/** `why` says why it is in memory at all; `where` is the memory plan's place, `first` and `last` its life in the
 * schedule. */
export interface BufferData {
  readonly name: string; readonly type: string; readonly kind: string; readonly origins: readonly string[];
  readonly why?: WhyData | null; readonly where?: string; readonly where_why?: WhyData | null; readonly offset?: number;
  readonly of?: string; readonly bytes?: number; readonly first?: number; readonly last?: number;
}

/** A loop or a library call. */
export interface OperationData {
  readonly id: string; readonly kind: string; readonly target: string; readonly reads: readonly string[];
  readonly writes: readonly string[]; readonly origins: readonly string[]; readonly why?: WhyData | null;
}

export interface FusionData {
  readonly first: string; readonly second: string; readonly ok: boolean; readonly why: WhyData; readonly score?: number;
  readonly later?: boolean;
}

/** One entry of the schedule: a kernel with its operations, or a library call. */
export interface ItemData {
  readonly id: string; readonly kind: string; readonly operations: readonly string[]; readonly outer?: string;
  readonly inner?: string; readonly internal?: readonly string[]; readonly why?: WhyData | null;
}

/** `fusions` are the last verdicts on each pair; `otherwise` says why two kernels are apart between which none is
 * listed; `tried` is what was asked, in that order, about the two groups that the operations were in by then. */
export interface ScheduleData {
  readonly items: readonly ItemData[]; readonly fusions: readonly FusionData[]; readonly tried?: readonly FusionData[];
  readonly otherwise?: WhyData | null;
}

/** `measured`: what one run held, inputs left out, at each step of the schedule and after the last. */
export interface MemoryData {
  readonly pool: number; readonly peak_before: number; readonly peak_after: number;
  readonly measured?: readonly number[];
}

/** What a kernel is called with: the memory of `buffer`, or a number, the value of `size`. */
export interface ArgumentData {
  readonly buffer?: string; readonly size?: string; readonly written?: boolean;
}

/** A loop of a kernel, inside `depth` others. `kind`: "serial", "parallel", "vector", "parallel vector"; `tile`: the
 * points of a step that loops further in, or a block's lanes, go over; 0 where a step is one point. */
export interface TiledLoopData {
  readonly axis: string; readonly kind: string; readonly size: string; readonly tile?: number; readonly depth?: number;
}

/** [means, intel]: what an instruction does, in a line, and what it is in Intel's syntax where that is another name:
 * "mov QWORD PTR", with the size of what it reads from memory. */
export type MnemonicData = readonly [means: string, intel?: string];

/** `seconds` is the median of one launch, where it was timed. `lowered` gives the machine's texts by kind ("asm",
 * "ttir", "ttgir", "llir", "ptx", "sass"). */
export interface KernelData {
  readonly id: string; readonly function: string; readonly language: string; readonly source: TextData;
  readonly origins: readonly string[]; readonly bytes: number; readonly flops: number; readonly seconds?: number | null;
  readonly lowered?: { readonly [key: string]: TextData }; readonly arguments?: readonly ArgumentData[];
  readonly loops?: readonly TiledLoopData[]; readonly remarks?: { readonly [key: string]: string };
  readonly vectorized?: readonly string[]; readonly facts?: readonly string[];
}

export interface BuildData {
  readonly tool: string; readonly command: readonly string[]; readonly version: string; readonly output: string;
  readonly seconds: number; readonly cached: boolean;
}

/** What the `kernel` (or library call) wrote to `buffer` in one call, in words, and what eager operators compute for
 * the graph's `node` of which that is the value. `node` is "" where there is none, and nothing to compare with.
 * 
 * `error` is the largest distance of the two; None where other elements are finite. `differs`: beyond tolerance, and
 * further than eager from a run in float64. `nonfinite`: how many elements are NaN or infinite; `began`: the first
 * node of this kernel of which that is so in eager. */
export interface WrittenData {
  readonly kernel: string; readonly buffer: string; readonly ours: string; readonly node?: string;
  readonly eager?: string; readonly error?: number | null; readonly differs?: boolean; readonly nonfinite?: number;
  readonly began?: string;
}

/** One half from lowering to the built program. `part` is "inference", "forward" or "backward". */
export interface HalfData {
  readonly name: string; readonly target: string; readonly buffers?: readonly BufferData[];
  readonly operations?: readonly OperationData[]; readonly schedule?: ScheduleData | null;
  readonly memory?: MemoryData | null; readonly kernels?: readonly KernelData[]; readonly wrapper?: TextData | null;
  readonly builds?: readonly BuildData[]; readonly extern_seconds?: { readonly [key: string]: number };
  readonly nodes?: { readonly [key: string]: readonly [string, readonly string[]] }; readonly runs?: boolean;
  readonly extern_flops?: { readonly [key: string]: number }; readonly written?: readonly WrittenData[];
}

/** One call of a stage. `half` names the half it belongs to; `error` is what ended it. `halves` are the forward and
 * the backward graph, where it cut one in two.
 * 
 * `same_as` is the id of the earlier stage whose artifact this one left as it was; `body` and `graph` are then absent.
 */
export interface StageData {
  readonly id: string; readonly name: string; readonly started: number; readonly seconds: number;
  readonly depth: number; readonly half?: string; readonly body?: TextData | null; readonly graph?: GraphData | null;
  readonly error?: string; readonly same_as?: string; readonly halves?: readonly GraphData[];
}

/** [stage, pattern, gone, was, by, now, whys]: a pass found `pattern` in the graph and took the node `gone` out,
 * which read `was`; its users read `by` instead ("" where it had none). Or lowering made operations of it, which
 * are `by`, separated by ", "; `whys` is why the last is there. */
export type RewriteData = readonly [stage: string, pattern: string, gone: string, was: string, by?: string, now?:
  string, whys?: readonly WhyData[]];

/** A key that stock looked for in one of its caches, by its parts, each a hash and the beginning of its text. Where
 * `like` names the nearest key before it (its `id`), `parts` are those that differ from it, and `lacks` those that
 * only the earlier one has. */
export interface CacheKeyData {
  readonly id: string; readonly cache: string; readonly key: string; readonly parts: { readonly [key: string]: string };
  readonly like?: string; readonly lacks?: readonly string[];
}

/** An attempt: its type's name and its fields as text. */
export interface EventData {
  readonly kind: string; readonly fields: { readonly [key: string]: string };
}

/** Everything of one compile of a frame ("f0"), a recompile of it ("f0.1") or a graph ("g0"). */
export interface CompileData {
  readonly id: string; readonly title: string; readonly started: number; readonly seconds: number;
  readonly stages?: readonly StageData[]; readonly codes?: readonly CodeData[]; readonly guards?: readonly GuardData[];
  readonly breaks?: readonly BreakData[]; readonly effects?: readonly EffectData[];
  readonly symbols?: readonly SymbolData[]; readonly saved?: readonly SavedData[];
  readonly eager_backward?: readonly GradNodeData[]; readonly halves?: readonly HalfData[];
  readonly events?: readonly EventData[]; readonly left_out?: { readonly [key: string]: number };
  readonly error?: string; readonly raises?: boolean; readonly fallback?: WhyData | null;
  readonly inputs?: readonly InputData[]; readonly recompiles?: readonly RecompileData[]; readonly continues?: string;
  readonly activations?: readonly ActivationData[]; readonly trace?: readonly StepData[];
  readonly values?: readonly ValueData[]; readonly made?: { readonly [key: string]: number }; readonly engine?: string;
  readonly inferred?: { readonly [key: string]: readonly string[] }; readonly runs?: number;
  readonly run_seconds?: number; readonly guard_seconds?: number | null;
  readonly guard_costs?: readonly GuardCostData[]; readonly rules?: { readonly [key: string]: string };
  readonly rewrites?: readonly RewriteData[]; readonly functions?: readonly FunctionCostData[];
  readonly cache_keys?: readonly CacheKeyData[]; readonly called?: string;
}

/** A guard that made a frame compile again, over all compiles of the frame: how many compiles it caused, with
 * which values, and what would stop that ("" where nothing is known to). `guard` is its id in the compile `of`;
 * `compiles` are those that it caused, perhaps with other guards. */
export interface FailedGuardData {
  readonly frame: string; readonly expression: string; readonly times: number; readonly values: readonly string[];
  readonly stops?: string; readonly of?: string; readonly guard?: string; readonly compiles?: readonly string[];
  readonly span?: SpanData | null; readonly words?: string; readonly also?: number;
}

/** An error of a compile (or, with compile "", of the whole): its type, all of its text, and the user's line. */
export interface ErrorData {
  readonly compile: string; readonly title: string; readonly kind: string; readonly message: string;
  readonly span?: SpanData | null; readonly raises?: boolean; readonly engine?: string;
}

/** What ran in Python outside graphs: `what` is a function, a continuation, or Python code at a graph break. `calls`
 * are ATen calls and `seconds` its time in the call `measured`; None where nobody counted them, and `measured` says
 * why. `reached`: whether a call came there at all. `at_break`: it is the code at a graph break. */
export interface EagerData {
  readonly what: string; readonly why: string; readonly compile?: string; readonly span?: SpanData | null;
  readonly calls?: number | null; readonly seconds?: number | null; readonly measured?: string;
  readonly reached?: boolean; readonly at_break?: boolean;
}

/** [call, text]: the number of a call, from 1, that raised, and what. */
export type RaisedData = readonly [call: number, text: string];

/** Calls of one compiled function of a program that was watched. `seconds` is all that they took; of it, `compiling`
 * in compiles and `graphs` in compiled graphs (None where its graphs are older than the watch). `samples` are the
 * first calls one by one. */
export interface CallsData {
  readonly function: string; readonly engine: string; readonly count: number; readonly seconds: number;
  readonly compiling: number; readonly graphs: number | null; readonly samples: readonly number[];
  readonly served?: readonly (readonly string[])[]; readonly compiled?: readonly number[]; readonly measured?: number;
  readonly raised?: readonly RaisedData[];
}

/** How many times as fast as eager: the ratio of the medians, which is `times`, and an interval from `low` to `high`
 * that holds the true one with 95 % confidence. `times` is None where noise hides it, as the text says. */
export interface SpeedData {
  readonly said: string; readonly times?: number | null; readonly low?: number | null; readonly high?: number | null;
}

/** [compile, half, ids, start, seconds]: a kernel or library call in one call, `start` seconds after that began.
 * Where one function runs several kernels there are several ids, separated by ", ". */
export type LaunchData = readonly [compile: string, half: string, ids: string, start: number, seconds: number];

/** One call on the CPU, of median length among a few, with what it launched, in order. Each launch takes some tenths
 * of a microsecond longer than otherwise, for the clock. */
export interface CallData {
  readonly seconds: number; readonly launches: readonly LaunchData[];
}

/** Seconds of one contestant: "eager", "explorer" or "stock". Spread is the interquartile range. `peak` are the
 * most bytes allocated at once during one call, backward included; a memory pool kept between calls counts. */
export interface SamplesData {
  readonly name: string; readonly median: number; readonly spread: number; readonly samples: readonly number[];
  readonly compile_seconds?: number | null; readonly note?: string; readonly peak?: number | null;
  readonly speed?: SpeedData | null; readonly call?: CallData | null;
  readonly kept?: { readonly [key: string]: number };
}

/** The first graph node whose value differs from eager's beyond tolerance; the reference is the graph in float64.
 * 
 * `error` and `eager_error` are the largest distances of the compiled and of eager's value from the reference.
 * `error` is None if the compiled value is not finite or has another shape; `eager_error` is None if an operator has
 * no float64 form, in which case eager is the reference. `kernel` is the kernel or library call that wrote the value.
 * `node` is a node of the captured graph (`fx.add_1`) if a change of the graph itself is wrong. `detail` says what was
 * compared. If results differ but no node is at fault, `node` is "" and `detail` says what is known. `engine` is the
 * compiler: "explorer" or "stock". */
export interface DivergenceData {
  readonly compile: string; readonly half: string; readonly node: string; readonly kernel: string;
  readonly error: number | null; readonly eager_error?: number | null; readonly span?: SpanData | null;
  readonly detail?: string; readonly engine?: string;
}

/** How close one `engine` is to eager: the largest absolute and relative error of one output or gradient, `where`:
 * the one that is furthest from eager's in units of its tolerance. `first_mismatch` names the first tensor beyond
 * tolerance ("" if none is), and `divergence` the first node that differs, if it was searched for. `own_error` and
 * `eager_error` are the largest distances of its elements and of eager's from a float64 run of the same call, if one
 * was made. `nan`: the first of eager's outputs and gradients with a NaN in it. `opaque`: the first value that cannot
 * be compared. `mismatch`: how the first mismatch differs: "elements", "value", or
 * "unpaired" where one is missing or has another dtype or device, which no other values explain. */
export interface AccuracyData {
  readonly largest_absolute: number; readonly largest_relative: number; readonly where: string;
  readonly first_parting?: string; readonly compared?: number; readonly parting?: DivergenceData | null;
  readonly engine?: string; readonly own_error?: number | null; readonly eager_error?: number | null;
  readonly nan?: string; readonly opaque?: string; readonly mismatch?: string;
}

/** Measured peaks: bytes and floating-point operations a second. */
export interface MachineData {
  readonly name: string; readonly bytes_per_second: number; readonly flops_per_second: number;
}

/** Measurements, compared with eager. There are no contestants where results were compared and nothing was timed. */
export interface TimingData {
  readonly contestants: readonly SamplesData[]; readonly overhead?: number | null;
  readonly machine?: MachineData | null; readonly accuracy?: AccuracyData | null; readonly method?: string;
  readonly stock_accuracy?: AccuracyData | null; readonly graphs_alone?: boolean;
}

/** ATen calls by where they run, and frames that ran in the interpreter outside graphs. */
export interface CoverageData {
  readonly kernel?: number; readonly extern?: number; readonly view?: number; readonly fallback?: number;
  readonly python?: readonly string[];
}

export interface ReasonData {
  readonly code: string; readonly title: string; readonly meaning: string; readonly hint: string;
}

/** What made a function compile again: the guard `guard` of the compile `of` that failed, in words; `was` and `now`
 * what it expected and got, where these are values. `span` is the line that made the guard, and `stops` what
 * keeps it from failing ("" where nothing is known to). `also`: the check stopped at another one, before this. `of` is
 * the earlier compile that was nearest to accepting the call. */
export interface ChangeData {
  readonly said: string; readonly was?: string; readonly now?: string; readonly of?: string; readonly guard?: string;
  readonly span?: SpanData | null; readonly stops?: string; readonly also?: boolean;
}

/** A custom operator, called `calls` times in one eager call of the program: how its fake implementation, which a
 * compiler trusts, `differs` from what the real one did. */
export interface OperatorCheckData {
  readonly operator: string; readonly calls: number; readonly differs?: readonly string[];
}

/** Calls of one function in a row that the same compiles served: numbers `first` to `last`, from 1 (0 where nobody
 * counted the calls, or none of them went there). `compiles` ran; `made` are those of them that the first of these
 * calls had compiled, because of `changes` (none where there was nothing before). `note` says what else became of the
 * calls: that none went there, or what they raised. */
export interface ServedData {
  readonly function: string; readonly first: number; readonly last: number; readonly compiles: readonly string[];
  readonly made?: readonly string[]; readonly changes?: readonly ChangeData[]; readonly note?: string;
}

/** One part of the answer at a glance: a sentence on `what`, and the pane that tells more, of `compile` where it is
 * named. `state` is "ok", "attention", "wrong", or "unknown" for what was not measured or compared. `engine` is whose
 * it is; "" where it is of the whole. */
export interface PartData {
  readonly what: string; readonly said: string; readonly state: string; readonly pane: string;
  readonly compile?: string; readonly engine?: string;
}

/** What is asked in a pane of the viewer beside what it draws, and the lines that answer it. */
export interface AnswerData {
  readonly pane: string; readonly title: string; readonly lines: readonly string[];
}

export interface RecordData {
  readonly version: number; readonly title: string; readonly engine: string; readonly target: string;
  readonly created: string; readonly environment: { readonly [key: string]: string };
  readonly config: { readonly [key: string]: string }; readonly sources: readonly SourceData[];
  readonly compiles: readonly CompileData[]; readonly coverage: CoverageData; readonly timing?: TimingData | null;
  readonly result?: string; readonly error?: string; readonly reasons?: readonly ReasonData[];
  readonly notes?: readonly string[]; readonly attempts?: readonly CompileData[];
  readonly meanings?: { readonly [key: string]: string }; readonly mnemonics?: { readonly [key: string]: MnemonicData };
  readonly recompiles?: readonly FailedGuardData[]; readonly errors?: readonly ErrorData[];
  readonly eager?: readonly EagerData[]; readonly calls?: readonly CallsData[]; readonly glance?: readonly PartData[];
  readonly answers?: readonly AnswerData[]; readonly operators?: readonly OperatorCheckData[];
  readonly history?: readonly ServedData[]; readonly cut?: boolean;
}

/** Two records to be shown stage by stage: what an output of type DIFF_MIME holds. */
export interface DiffData {
  readonly before: RecordData; readonly after: RecordData;
}

export const LineData: Check = row(1, text, text, list(text));
export const TextData: Check = shape({ lines: list(LineData, 500000) }, { language: text });
export const SpanData: Check = shape({ file: text, line: between(-1, 1000000000), end_line: between(-1, 1000000000) }, {
  column: between(-1, 1000000000), end_column: between(-1, 1000000000) });
export const SourceData: Check = shape({ file: text, first_line: between(-1, 1000000000), text: text }, { name: text });
export const WhyData: Check = shape({ code: text, title: text }, { detail: text });
export const NodeData: Check = shape({ id: text, name: text, op: text, target: text, type: text, inputs: list(text),
  origins: list(text) }, { module: text, about: text, bytes: whole, span: maybe(SpanData) });
export const GraphData: Check = shape({ name: text, nodes: list(NodeData), outputs: list(text) });
export const GradNodeData: Check = shape({ id: text, name: text, origins: list(text), inputs: list(text) });
export const InstructionData: Check = shape({ id: text, op: text, arg: text }, { target: text, origins: list(text),
  span: maybe(SpanData), stack: row(2, whole, whole) });
export const CodeData: Check = shape({ name: text, role: text, file: text, line: between(-1, 1000000000), instructions:
  list(InstructionData) }, { python: text });
export const TensorFactsData: Check = shape({ dtype: text, device: text, sizes: list(maybe(whole)) }, { strides:
  maybe(list(maybe(whole))), requires_grad: flag, type: text });
export const ConstantData: Check = shape({ type: text, text: text }, { value: maybe(either(flag, real, text)) });
export const ExpressionData: Check = shape({ op: text }, { arguments: list(again(() => ExpressionData)), value: real,
  source: text, text: text });
export const GlobalStateData: Check = shape({ grad_enabled: flag }, { autocast: list(text), default_dtype: text,
  deterministic: flag, threads: whole, devices: list(text) });
export const InputData: Check = shape({ source: text, kind: text }, { role: text, type: text, tensor:
  maybe(TensorFactsData), constant: maybe(ConstantData), length: maybe(whole), keys: maybe(list(ConstantData)), name:
  text, same_as: text });
export const GuardData: Check = shape({ id: text, source: text, property: text, relation: text, value: text, expression:
  text, why: text }, { cause: text, span: maybe(SpanData), seen: text, tensor: maybe(TensorFactsData), type: text,
  constant: maybe(ConstantData), length: maybe(whole), keys: maybe(list(ConstantData)), shape: maybe(ExpressionData),
  others: list(text), state: maybe(GlobalStateData), words: text, of_torch: flag, step: whole });
export const GuardCostData: Check = shape({ source: text, checks: whole, seconds: real }, { whole: flag });
export const RecompileData: Check = shape({ of: text, guard: text, expression: text, why: text }, { seen: text, words:
  text });
export const ActivationData: Check = shape({ function: text }, { depth: between(0, 10000), caller: whole });
export const FunctionCostData: Check = shape({ function: text, calls: whole, seconds: real, whole: real });
export const ValueData: Check = row(1, text, whole, list(row(2, text, whole)));
export const StepData: Check = row(3, text, whole, whole, whole, list(whole), entries(whole));
export const BreakData: Check = shape({ why: WhyData, instruction: text, span: maybe(SpanData), stack: list(text, 500),
  hints: list(text, 100) }, { continuation: text, rewrite: list(text, 1000), cell: text, tried: text, step: whole });
export const EffectData: Check = shape({ kind: text, expression: text, origins: list(text) }, { step: whole });
export const SymbolData: Check = shape({ name: text, hint: maybe(whole), source: text, range: text, status: text, why:
  text }, { step: whole });
export const SavedData: Check = shape({ id: text, kind: text, bytes: whole, why: WhyData }, { seconds: maybe(real) });
export const BufferData: Check = shape({ name: text, type: text, kind: text, origins: list(text) }, { why:
  maybe(WhyData), where: text, where_why: maybe(WhyData), offset: whole, of: text, bytes: whole, first: whole, last:
  whole });
export const OperationData: Check = shape({ id: text, kind: text, target: text, reads: list(text), writes: list(text),
  origins: list(text) }, { why: maybe(WhyData) });
export const FusionData: Check = shape({ first: text, second: text, ok: flag, why: WhyData }, { score: real, later: flag
  });
export const ItemData: Check = shape({ id: text, kind: text, operations: list(text, 3000) }, { outer: text, inner: text,
  internal: list(text), why: maybe(WhyData) });
export const ScheduleData: Check = shape({ items: list(ItemData), fusions: list(FusionData) }, { tried: list(FusionData,
  500000), otherwise: maybe(WhyData) });
export const MemoryData: Check = shape({ pool: whole, peak_before: whole, peak_after: whole }, { measured: list(whole)
  });
export const ArgumentData: Check = shape({}, { buffer: text, size: text, written: flag });
export const TiledLoopData: Check = shape({ axis: text, kind: text, size: text }, { tile: whole, depth: whole });
export const MnemonicData: Check = row(1, text, text);
export const KernelData: Check = shape({ id: text, function: text, language: text, source: TextData, origins:
  list(text), bytes: whole, flops: whole }, { seconds: maybe(real), lowered: entries(TextData), arguments:
  list(ArgumentData), loops: list(TiledLoopData), remarks: entries(text), vectorized: list(text), facts: list(text) });
export const BuildData: Check = shape({ tool: text, command: list(text), version: text, output: text, seconds: real,
  cached: flag });
export const WrittenData: Check = shape({ kernel: text, buffer: text, ours: text }, { node: text, eager: text, error:
  maybe(real), differs: flag, nonfinite: whole, began: text });
export const HalfData: Check = shape({ name: text, target: text }, { buffers: list(BufferData, 5000), operations:
  list(OperationData), schedule: maybe(ScheduleData), memory: maybe(MemoryData), kernels: list(KernelData), wrapper:
  maybe(TextData), builds: list(BuildData), extern_seconds: entries(real), nodes: entries(row(2, text, list(text))),
  runs: flag, extern_flops: entries(whole), written: list(WrittenData) });
export const StageData: Check = shape({ id: text, name: text, started: real, seconds: real, depth: between(0, 99) }, {
  half: text, body: maybe(TextData), graph: maybe(GraphData), error: text, same_as: text, halves: list(GraphData) });
export const RewriteData: Check = row(4, text, text, text, text, text, text, list(WhyData));
export const CacheKeyData: Check = shape({ id: text, cache: text, key: text, parts: entries(text, 5000) }, { like: text,
  lacks: list(text) });
export const EventData: Check = shape({ kind: text, fields: entries(text) });
export const CompileData: Check = shape({ id: text, title: text, started: real, seconds: real }, { stages:
  list(StageData, 5000, "id"), codes: list(CodeData), guards: list(GuardData), breaks: list(BreakData, 300), effects:
  list(EffectData), symbols: list(SymbolData), saved: list(SavedData), eager_backward: list(GradNodeData), halves:
  list(HalfData), events: list(EventData), left_out: entries(whole), error: text, raises: flag, fallback:
  maybe(WhyData), inputs: list(InputData), recompiles: list(RecompileData), continues: text, activations:
  list(ActivationData), trace: list(StepData, 500000), values: list(ValueData, 500000), made: entries(whole), engine:
  text, inferred: entries(list(text)), runs: whole, run_seconds: real, guard_seconds: maybe(real), guard_costs:
  list(GuardCostData), rules: entries(text), rewrites: list(RewriteData, 500000), functions: list(FunctionCostData),
  cache_keys: list(CacheKeyData), called: text });
export const FailedGuardData: Check = shape({ frame: text, expression: text, times: whole, values: list(text) }, {
  stops: text, of: text, guard: text, compiles: list(text), span: maybe(SpanData), words: text, also: whole });
export const ErrorData: Check = shape({ compile: text, title: text, kind: text, message: text }, { span:
  maybe(SpanData), raises: flag, engine: text });
export const EagerData: Check = shape({ what: text, why: text }, { compile: text, span: maybe(SpanData), calls:
  maybe(whole), seconds: maybe(real), measured: text, reached: flag, at_break: flag });
export const RaisedData: Check = row(2, whole, text);
export const CallsData: Check = shape({ function: text, engine: text, count: whole, seconds: real, compiling: real,
  graphs: maybe(real), samples: list(real) }, { served: list(list(text)), compiled: list(whole), measured: whole,
  raised: list(RaisedData) });
export const SpeedData: Check = shape({ said: text }, { times: maybe(real), low: maybe(real), high: maybe(real) });
export const LaunchData: Check = row(5, text, text, text, real, real);
export const CallData: Check = shape({ seconds: real, launches: list(LaunchData, 10000) });
export const SamplesData: Check = shape({ name: text, median: real, spread: real, samples: list(real) }, {
  compile_seconds: maybe(real), note: text, peak: maybe(whole), speed: maybe(SpeedData), call: maybe(CallData), kept:
  entries(whole) });
export const DivergenceData: Check = shape({ compile: text, half: text, node: text, kernel: text, error: maybe(real) },
  { eager_error: maybe(real), span: maybe(SpanData), detail: text, engine: text });
export const AccuracyData: Check = shape({ largest_absolute: real, largest_relative: real, where: text }, {
  first_parting: text, compared: whole, parting: maybe(DivergenceData), engine: text, own_error: maybe(real),
  eager_error: maybe(real), nan: text, opaque: text, mismatch: text });
export const MachineData: Check = shape({ name: text, bytes_per_second: real, flops_per_second: real });
export const TimingData: Check = shape({ contestants: list(SamplesData, 100) }, { overhead: maybe(real), machine:
  maybe(MachineData), accuracy: maybe(AccuracyData), method: text, stock_accuracy: maybe(AccuracyData), graphs_alone:
  flag });
export const CoverageData: Check = shape({}, { kernel: whole, extern: whole, view: whole, fallback: whole, python:
  list(text) });
export const ReasonData: Check = shape({ code: text, title: text, meaning: text, hint: text });
export const ChangeData: Check = shape({ said: text }, { was: text, now: text, of: text, guard: text, span:
  maybe(SpanData), stops: text, also: flag });
export const OperatorCheckData: Check = shape({ operator: text, calls: whole }, { differs: list(text) });
export const ServedData: Check = shape({ function: text, first: whole, last: whole, compiles: list(text, 300) }, { made:
  list(text, 300), changes: list(ChangeData, 300), note: text });
export const PartData: Check = shape({ what: text, said: text, state: text, pane: text }, { compile: text, engine: text
  });
export const AnswerData: Check = shape({ pane: text, title: text, lines: list(text, 10000) });
export const RecordData: Check = shape({ version: whole, title: text, engine: text, target: text, created: text,
  environment: entries(text), config: entries(text), sources: list(SourceData, 5000), compiles: list(CompileData, 1000,
  "id"), coverage: CoverageData }, { timing: maybe(TimingData), result: text, error: text, reasons: list(ReasonData),
  notes: list(text, 200), attempts: list(CompileData, 300), meanings: entries(text), mnemonics: entries(MnemonicData),
  recompiles: list(FailedGuardData, 1000), errors: list(ErrorData, 300), eager: list(EagerData, 1000), calls:
  list(CallsData), glance: list(PartData, 100), answers: list(AnswerData, 100), operators: list(OperatorCheckData),
  history: list(ServedData, 1000), cut: flag });
export const DiffData: Check = shape({ before: RecordData, after: RecordData });
