// Made from explorer/records/data/methods.py by `python -m explorer.show.notebook.types`; edit that file instead.

import { type Check, entries, flag, list, maybe, one, real, shape, text, whole } from "../check";
import { TextData, SourceData } from "../record";

export const VERSION = 2;
export const MIME = "application/vnd.explorer.methods+json";

/** One stop of an operation on its way through the dispatcher. `does` is "kernel" or "passes on". */
export interface KernelStepData {
  readonly key: string; readonly does: string; readonly place: string;
}

/** One operation that eager ran: its stops in the dispatcher's order, the types, median seconds, and the line of the
 * program ("FILE:LINE", "" where none is known). */
export interface OperationCallData {
  readonly id: string; readonly name: string; readonly steps: readonly KernelStepData[]; readonly dtype: string;
  readonly layout: string; readonly device: string; readonly result: string; readonly seconds: number;
  readonly where: string;
}

/** A call that captured programs are tried on: `change` says how it differs from the call captured, `expected` what
 * eager gives or raises. */
export interface TriedInputData {
  readonly name: string; readonly change: string; readonly arguments: string; readonly expected?: string;
}

/** The result on one input, compared with eager. `detail` gives the values or the error; `recompiled` where the
 * method compiled again for it. */
export interface VerdictData {
  readonly input: string; readonly answer: "right" | "wrong" | "refused" | "not run"; readonly detail?: string;
  readonly error?: number; readonly recompiled?: boolean;
}

/** One text of what a method captured. A line's origins are the lines of the program that it was made for, where
 * the method knows them; lines have no ids. */
export interface ViewData {
  readonly title: string; readonly text: TextData;
}

/** What one method made of the program. `seconds` is the median of a call, `capture_seconds` what capturing took,
 * with its first call where that is when it captures. */
export interface MethodData {
  readonly name: string; readonly how: string; readonly views?: readonly ViewData[]; readonly control?: string;
  readonly sizes?: string; readonly baked?: readonly string[]; readonly kept?: readonly string[];
  readonly verdicts?: readonly VerdictData[]; readonly said?: readonly string[]; readonly error?: string;
  readonly meaning?: string; readonly missing?: string; readonly capture_seconds?: number | null;
  readonly seconds?: number | null; readonly spread?: number | null; readonly saved?: string;
  readonly runs_without_python?: string;
}

export interface MethodsData {
  readonly version: number; readonly title: string; readonly created: string;
  readonly environment: { readonly [key: string]: string }; readonly sources: readonly SourceData[];
  readonly inputs: readonly TriedInputData[]; readonly methods: readonly MethodData[];
  readonly operations?: readonly OperationCallData[]; readonly timing?: string;
}

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
