// A graph as the stage printed it, each line with what the pass did to it.

import { entry } from "../../collections";
import type { Model } from "../../model";
import type { LineData } from "../../record";
import { rowsOf } from "../../rows";
import type { TextRow, TextRows } from "../../textview";
import type { Sign } from "./family";
import { type ScenePart, SIGNS } from "./scene";
import { GLYPHS } from "./svg";

const STYLES = { added: "added", removed: "removed", changed: "altered" } as const;

export function textOf({ subject, view, changes }: Pick<ScenePart, "subject" | "view" | "changes">,
    model: Model): TextRows {
  const { nodes } = subject.state(view);
  const later = new Set(subject.family.vertices.filter(each => !nodes.has(each.index)).map(each => each.data.id));
  const there = view.before ? view.lines : view.lines.filter(([, id = ""]) => !later.has(id));
  const lines = changes.size && view.before
    ? withRemoved(subject.family.vertices.map(each => each.data.id), there, view.before.lines, changes) : there;
  const byId = new Map([...changes].map(([vertex, sign]) => [subject.family.vertices[vertex]!.data.id, sign]));
  const rows = rowsOf({ lines, language: "python" }, subject.compile, model, true);
  const marked = rows.map((row, n): TextRow => {
    const sign = byId.get(lines[n]?.[1] ?? "");
    return sign ? { ...row, style: STYLES[sign],
      marks: [{ text: GLYPHS[sign], title: SIGNS[sign], style: `ex-g-${sign}` }] } : row;
  });
  return { rows: marked, language: "python", label: `${view.title}, as text` };
}

/** The lines with those of removed nodes put back after the node that stood before them. */
function withRemoved(ids: readonly string[], lines: readonly LineData[], before: readonly LineData[],
    changes: ReadonlyMap<number, Sign>): LineData[] {
  const old = new Map(before.map(line => [line[1] ?? "", line]));
  const here = new Set(lines.map(([, id]) => id));
  const after = new Map<string, LineData[]>();
  let last = "";
  ids.forEach((id, vertex) => {
    if (here.has(id)) last = id;
    const line = changes.get(vertex) === "removed" ? old.get(id) : undefined;
    if (line) entry(after, last, () => []).push(line);
  });
  return lines.flatMap(line => [line, ...(line[1] ? (after.get(line[1]) ?? []) : [])]);
}
