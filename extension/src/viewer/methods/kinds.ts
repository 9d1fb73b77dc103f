// Made from explorer/records/data/methods.py by `python -m explorer.show.notebook.types`; edit that file instead.

import { type Check, entries, flag, list, maybe, one, real, shape, text, whole } from "../check";
import { TextData, SourceData } from "../kinds";

export const KernelStepData: Check = shape({ key: text, does: text, place: text });
export const OperationCallData: Check = shape({ id: text, name: text, steps: list(KernelStepData), dtype: text, layout:
  text, device: text, result: text, seconds: real, where: text });
export const TriedInputData: Check = shape({ name: text, change: text, arguments: text }, { expected: text });
export const VerdictData: Check = shape({ input: text, answer: one("right", "wrong", "refused", "not run") }, { detail:
  text, error: real, recompiled: flag });
export const ViewData: Check = shape({ title: text, text: TextData });
export const MethodData: Check = shape({ name: text, how: text }, { views: list(ViewData), control: text, sizes: text,
  baked: list(text), kept: list(text), verdicts: list(VerdictData), said: list(text), error: text, meaning: text,
  missing: text, capture_seconds: maybe(real), seconds: maybe(real), spread: maybe(real), saved: text,
  runs_without_python: text });
export const MethodsData: Check = shape({ version: whole, title: text, created: text, environment: entries(text),
  sources: list(SourceData), inputs: list(TriedInputData), methods: list(MethodData) }, { operations:
  list(OperationCallData), timing: text });
