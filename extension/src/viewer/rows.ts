// The lines of a record's texts as rows of a TextView.

import { isSourceLine, key, syntheticReason } from "./element";
import type { Model } from "./model";
import type { CompileData, LineData, TextData } from "./record";
import type { TextRow } from "./textview";

type Linking = Pick<Model, "links" | "palette" | "files">;

/** The rows of a text of a compile: what each line is about, its source line's color, and why it has none (said once
 * for a run of lines of the same reason). */
export function rowsOf(text: TextData | null | undefined, compile: CompileData, model: Linking,
    numbered = false): TextRow[] {
  let lastNote: string | undefined;
  return (text?.lines ?? []).map((line, n) => {
    const row = rowOf(line, compile, model, numbered ? String(n + 1) : undefined);
    const repeated = row.note !== undefined && row.note === lastNote;
    lastNote = row.note;
    return repeated ? { ...row, note: undefined } : row;
  });
}

function rowOf([line, id, origins]: LineData, compile: CompileData, model: Linking,
    number: string | undefined): TextRow {
  const text = model.files.value.inLine(line);
  const causes = (origins ?? []).map(origin => key(compile.id, origin));
  const own = id ? key(compile.id, id) : null;
  const color = own ? model.palette.value.of(own) : model.palette.value.ofAll(causes);
  const realOrigins = (origins ?? []).filter(origin => syntheticReason(origin) === null);
  const stands = own ? [own] : realOrigins.map(origin => key(compile.id, origin));
  if (color !== null || (!own && causes.length === 0)) return { text, stands, color, number };
  const links = model.links.value;
  const reasons = new Set((own ? [own] : causes).flatMap(each => links.synthetic(each)));
  const direct = (origins ?? []).some(isSourceLine);
  return { text, stands, color, number,
    note: reasons.size && !direct ? `no source line: ${[...reasons].join(", ")}` : undefined };
}
