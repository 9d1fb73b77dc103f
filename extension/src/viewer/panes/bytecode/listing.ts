// A code object as lines: each source line, and the instructions that it became.

import { key, syntheticReason } from "../../element";
import { phrase } from "../../format";
import { own } from "../../collections";
import type { Model } from "../../model";
import type { CodeData, CompileData, InstructionData, RecordData, SpanData } from "../../record";
import type { TextRow } from "../../textview";

/** The rows of a code, and the row of each instruction. */
export function listing(code: CodeData, compile: CompileData,
    model: Model): { rows: TextRow[]; at: ReadonlyMap<string, number> } {
  const record = model.record.value;
  const palette = model.palette.value;
  const files = model.files.value;
  const rows: TextRow[] = [];
  const at = new Map<string, number>();
  if (code.python) rows.push({ text: "In Python:", style: "heading" },
    ...code.python.split("\n").map(text => ({ text: `  ${text}` })), { text: "Instructions:", style: "heading" });
  let [line, said] = ["", ""];
  for (const instruction of code.instructions) {
    const { id, op, arg, target, span, origins } = instruction;
    const here = span ? `${span.file}:${span.line}` : "";
    if (span && here !== line) {
      const what = key(compile.id, here);
      rows.push({ text: `${files.place(span.file, span.line)}  ${sourceLine(record, span.file, span.line).trim()}`,
        stands: [what], color: palette.of(what), style: "source" });
    }
    line = here;
    const reason = (origins ?? []).map(syntheticReason).find(each => each !== null) ?? "";
    const note = reason && reason !== said ? `no source line: ${reason}` : undefined;
    said = reason;
    const what = key(compile.id, id);
    const words = phrase([op.padEnd(20), arg, target ? `→ ${position(target)}` : ""], " ").trimEnd();
    at.set(id, rows.length);
    rows.push({ text: `  ${words}`, number: position(id), stands: [what], color: palette.of(what), note,
      title: meaning(instruction, record.meanings) });
  }
  return { rows, at };
}

/** "12" of "f0@12". */
export const position = (id: string): string => id.slice(id.lastIndexOf("@") + 1);

/** What an instruction does, in words. */
export function meaning({ op, arg, stack }: InstructionData, meanings: RecordData["meanings"]): string {
  const depth = stackEffect(stack);
  return phrase([`${op} ${arg}`.trim(), own(meanings, op) ?? "", depth ? `stack ${depth}` : ""], " · ");
}

/** "+1", or "+1, −1 when it jumps". */
export function stackEffect(stack: InstructionData["stack"]): string {
  if (!stack) return "±0";
  const [falls, jumps] = stack.map(signed) as [string, string];
  return stack[1] !== 0 && stack[1] !== stack[0] ? `${falls}, ${jumps} when it jumps` : falls;
}

const signed = (by: number): string => (by === 0 ? "±0" : by > 0 ? `+${by}` : `−${-by}`);

/** The text of a source line, "" where the record does not have it. */
function sourceLine(record: RecordData, file: string, line: number): string {
  for (const { file: name, first_line, text } of record.sources) {
    if (name === file && line >= first_line) {
      const found = text.split("\n")[line - first_line];
      if (found !== undefined) return found;
    }
  }
  return "";
}

/** The text that a span covers, as it is in the source: parts before, in and after it, of its first line. */
export function spanned(record: RecordData, span: SpanData): readonly [before: string, inside: string, after: string] {
  const text = sourceLine(record, span.file, span.line);
  const [from, to] = [span.column ?? -1, span.end_column ?? -1];
  if (from < 0 || !text) return [text, "", ""];
  const bytes = new TextEncoder().encode(text);
  const cut = (low: number, high?: number) => new TextDecoder().decode(bytes.slice(low, high));
  return span.end_line > span.line || to < 0 ? [cut(0, from), cut(from), ""] : [cut(0, from), cut(from, to), cut(to)];
}
