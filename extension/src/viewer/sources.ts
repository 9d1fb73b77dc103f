// The source files of a record: their names, and what happened at their lines.

import { type Key, key, parts } from "./element";
import { count, phrase, shortFile } from "./format";
import type { Links } from "./links";
import type { CompileData, RecordData, SourceData, SpanData } from "./record";
import { halfName } from "./stages";
import { entry } from "./collections";

const NOTEBOOK_CELL = /[/\\]ipykernel_\d+[/\\]\d+\.py$|^<ipython-input-/;
const LIBRARY = /[/\\](?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]|^<(?!ipython-input-)/;

/** What is longer is looked for in no line: it is no cell's, and would take long. */
const LONGEST_PATH = 255;

/** Lines of one function, or of a part of a file that no function is known of. */
export interface Stretch {
  readonly file: string;
  /** A name that no other file of the record has. */
  readonly name: string;
  readonly library: boolean;
  /** "" where none is known. */
  readonly function: string;
  readonly first: number;
  readonly lines: readonly string[];
}

export const isLibrary = (file: string): boolean => LIBRARY.test(file);

/** The user's own source before libraries', each in the order in which functions were first called. */
export function stretchesOf({ sources,
    compiles = [] }: Pick<RecordData, "sources"> & Partial<Pick<RecordData, "compiles">>): Stretch[] {
  const names = FileNames(sources);
  const functions = functionsOf(compiles);
  const found = sources.flatMap(({ file, first_line: start, text }) => {
    const lines = text.replace(/\n$/, "").split("\n");
    const own = functions.filter(each => each.file === file);
    const outer =
      own.filter(each => each.line > start && each.line < start + lines.length
        && !own.some(other => other.line < each.line && each.line <= other.last));
    const cuts = [start, ...outer.map(each => each.line).sort((one, other) => one - other)];
    return cuts.map((first, n) => {
      const next = cuts[n + 1];
      const rank = functions.findIndex(
        each => each.file === file && each.line < (next ?? start + lines.length) && each.last >= first);
      const end = next === undefined ? undefined : Math.min(next, (functions[rank]?.last ?? next) + 1) - start;
      const stretch = { file, name: names.of(file), library: isLibrary(file), function: functions[rank]?.name ?? "",
        first, lines: lines.slice(first - start, end) };
      return { stretch, rank: rank < 0 ? Infinity : rank };
    });
  });
  const order =
    found.sort((one, other) => Number(one.stretch.library) - Number(other.stretch.library)
      || (one.rank === other.rank ? one.stretch.first - other.stretch.first : one.rank - other.rank));
  return order.map(each => each.stretch);
}

/** Functions in the order in which they were first called, with the last line that is known of each. */
function functionsOf(compiles: readonly CompileData[]) {
  const found =
    new Map<string, { readonly name: string; readonly file: string; readonly line: number; last: number }>();
  for (const { name, file, line, instructions } of compiles.flatMap(each => each.codes ?? [])) {
    const known =
      entry(found, `${file}:${line}`, () => ({ name: name.replace(/^.*<locals>\./, ""), file, line, last: line }));
    for (const { span } of instructions) if (span?.file === file && span.end_line > known.last)
      known.last = span.end_line;
  }
  return [...found.values()];
}

/** How the files of a record are called: as much of a path as tells it from the others, and cells as the notebook
 * does. */
export function FileNames(sources: readonly Pick<SourceData, "file" | "name">[]) {
  const names = new Map<string, string>();
  /** What Python calls the notebook's cells in texts, which say the last part of a path. */
  const called = new Map<string, string>();
  const of = (file: string): string => names.get(file) ?? plainName(file);
  /** "make.py:9", or "In[3]:2". */
  const place = (file: string, line: number): string => `${of(file)}:${line}`;
  /** A line of a printed artifact, with the notebook's names for its cells. */
  const inLine = (line: string): string => inLines ? line.replace(inLines, found => called.get(found) ?? found) : line;
  const files = [...new Set(sources.map(each => each.file))];
  const own = new Map(sources.flatMap(({ file, name }) => (name ? [[file, name]] : [])));
  const cells = files.filter(file => !own.has(file) && NOTEBOOK_CELL.test(file));
  const paths = files.filter(file => !own.has(file) && !cells.includes(file));
  for (const [file, name] of own) {
    names.set(file, name);
    for (const path of [file, shortFile(file)]) if (path && path.length <= LONGEST_PATH) called.set(path, name);
  }
  const known = [...called.keys()].map(each => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const inLines = known.length ? new RegExp(`(?:${known.join("|")})(?=:\\d)`, "g") : null;
  cells.forEach((file, n) => names.set(file, cells.length > 1 ? `notebook cell ${n + 1}` : "notebook cell"));
  for (const file of paths) names.set(file, distinct(file, paths));

  /** A text that may begin with a place, as "/tmp/ipykernel_12/345.py:2 in f", with that place's name. */
  function inText(text: string): string {
    const [, file, line, rest = ""] = /^(.+?):(\d+)(\s.*)?$/s.exec(text) ?? [];
    return file === undefined ? text : place(file, Number(line)) + rest;
  }

  return { of, place, inLine, inText };
}

export type FileNames = ReturnType<typeof FileNames>;

function distinct(file: string, among: readonly string[]): string {
  const steps = file.split(/[/\\]/);
  for (let n = 1; n < steps.length; n++) {
    const name = steps.slice(-n).join("/");
    if (among.every(other => other === file || !`/${other.replace(/\\/g, "/")}`.endsWith(`/${name}`))) return name;
  }
  return file;
}

const plainName = (file: string): string => (NOTEBOOK_CELL.test(file) ? "notebook cell" : shortFile(file));

/** The compiles that one call runs through: of each frame the last one, or the chosen one where it is of that frame. */
export function running(compiles: readonly CompileData[], chosen: string): CompileData[] {
  const frame = (id: string) => id.replace(/\.\d+$/, "");
  const last = new Map<string, CompileData>();
  for (const each of compiles) {
    const known = last.get(frame(each.id));
    if (known?.id !== chosen) last.set(frame(each.id), each);
  }
  return [...last.values()];
}

/** Kernel time that a source line bears: `alone` in kernels of no other line, `shared` in those of others too. */
export interface LineTime {
  readonly alone: number;
  readonly shared: number;
  readonly kernels: readonly string[];
}

export interface KernelTime {
  readonly total: number;
  readonly lines: ReadonlyMap<Key, LineTime>;
}

/** Where the measured time of kernels and library calls goes. A kernel's whole time counts for each line it serves,
 * or for what stands in its place. */
export function kernelTime(compiles: readonly CompileData[], links: Links,
    inPlaceOf: (line: Key) => Key = line => line): KernelTime {
  const lines = new Map<Key, { alone: number; shared: number; kernels: string[] }>();
  let total = 0;
  for (const compile of compiles) {
    for (const half of compile.halves ?? []) {
      const timed: [string, number][] =
        (half.kernels ?? []).flatMap(each => (each.seconds == null ? [] : [[each.id, each.seconds]]));
      for (const [id, spent] of [...timed, ...Object.entries(half.extern_seconds ?? {})]) {
        const served = [...new Set(links.sourceLines(key(compile.id, id)).map(inPlaceOf))];
        total += spent;
        const name = phrase([compile.id, halfName(compile, half.name), id], " ");
        for (const line of served) {
          const found = lines.get(line) ?? { alone: 0, shared: 0, kernels: [] };
          if (served.length === 1) found.alone += spent;
          else found.shared += spent;
          found.kernels.push(
            served.length === 1 ? name : `${name} (shared with ${count(served.length - 1, "other line")})`);
          lines.set(line, found);
        }
      }
    }
  }
  return { total, lines };
}

/** The share of the time that a line bears: "38 %", "≤38 %" where all is shared, "20–58 %" where some is. */
export function timeShare({ alone, shared }: LineTime, total: number): string {
  const [least, most] =
    [alone, Math.min(alone + shared, total)].map(each => Math.round((100 * each) / total)) as [number, number];
  if (shared === 0) return least === 0 ? "<1 %" : `${least} %`;
  if (most === 0) return "<1 %";
  if (least === most) return `${most} %`;
  return alone === 0 || least === 0 ? `≤${most} %` : `${least}–${most} %`;
}

/** What there is to say of source lines. */
function byLine(said: readonly (readonly [SpanData | null | undefined, string])[]): Map<Key, string[]> {
  const found = new Map<Key, string[]>();
  for (const [span, text] of said) if (span) entry(found, `|${span.file}:${span.line}`, () => []).push(text);
  return found;
}

/** Guards by the source line that asked for them. */
export const guardsByLine = (compiles: readonly CompileData[]): Map<Key, string[]> => byLine(
  compiles.flatMap(each => each.guards ?? []).map(({ span, words, expression }) => [span, words || expression]));

/** Breaks by the source line where the graph ends; one that ends the graphs of several frames is one. */
export function breaksByLine(compiles: readonly CompileData[]): Map<Key, string[]> {
  const found = byLine(compiles.flatMap(each => each.breaks ?? [])
    .map(({ span, why }) => [span, phrase([why.title, why.detail], ": ")]));
  return new Map([...found].map(([line, reasons]) => [line, [...new Set(reasons)]]));
}

/** What changed before a recompile, by the line that made the guard which then failed. */
export const changesByLine = ({ history = [] }: RecordData): Map<Key, string[]> =>
  byLine(history.flatMap(each => each.changes ?? []).map(({ span, said }) => [span, said]));

/** Where a source line's key points to. */
export function place(line: Key): { file: string; line: number } {
  const { id } = parts(line);
  const colon = id.lastIndexOf(":");
  return { file: id.slice(0, colon), line: Number(id.slice(colon + 1)) };
}
