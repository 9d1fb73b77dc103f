// Made from explorer/ir/record.py by `python -m explorer.show.notebook.types`; edit that file instead.

import { again, between, type Check, either, entries, flag, list, maybe, real, row, shape, text, whole } from "./check";

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
