// Beside the drawing: the nodes of a graph as a table, with the same facts; the graph as the stage printed it, each
// line with what the pass did to it; and what the backward reads from the forward.

import { codes, type TableColumn, DataTable, figure } from "../../datatable";
import { key } from "../../element";
import { bytes, seconds, count } from "../../format";
import { own, sum, entry } from "../../collections";
import type { Selection } from "../../selection";
import type { GraphState } from "./family";
import type { Sign } from "../../stages";
import { GLYPHS, glyph } from "./svg";
import { SAVED_KINDS, type ScenePart, SIGNS } from "./scene";
import type { Model } from "../../model";
import type { LineData, CompileData, SavedData } from "../../record";
import { rowsOf, type TextRow, type TextRows } from "../../textview";
import { reasonLink, reasonText } from "../../catalogue";
import { fill, h } from "../../dom";
import type { Context } from "../../pane";

interface NodeRow {
  readonly vertex: number;
  readonly state: GraphState;
}

export function NodeTable(selection: Selection, chosen: (vertex: number) => void) {
  let shownPart: Omit<ScenePart, "x" | "y" | "placement"> | null = null;
  const table = DataTable<NodeRow>("Nodes", [], selection, {
    keys: row => [key(shownPart?.subject.compile.id ?? "", row.state.nodes.get(row.vertex)!.data.id)],
    chosen: row => chosen(row.vertex),
    look: row => (shownPart?.changes.get(row.vertex) ? `ex-g-${shownPart.changes.get(row.vertex)}` : ""),
  });

  function show(part: Omit<ScenePart, "x" | "y" | "placement">): void {
    shownPart = part;
    const { subject, view, changes } = part;
    const state = subject.state(view);
    const rows: NodeRow[] = [...state.nodes.keys()].map(vertex => ({ vertex, state }));
    if (view.before) {
      const before = subject.state(view.before);
      for (const [vertex, sign] of changes) if (sign === "removed") rows.push({ vertex, state: before });
    }
    table.show(rows.sort((a, b) => a.vertex - b.vertex), columns(part));
  }

  function columns({ subject, view, changes,
      saved }: Omit<ScenePart, "x" | "y" | "placement">): TableColumn<NodeRow>[] {
    const data = (row: NodeRow) => row.state.nodes.get(row.vertex)!.data;
    const homes = (row: NodeRow) => subject.kernels.of(data(row).id, view.kind)?.homes ?? [];
    const time = (row: NodeRow) => {
      const timed = homes(row).filter(home => home.seconds !== null);
      return timed.length ? sum(timed, home => home.seconds!) : null;
    };
    const kind = (row: NodeRow) => saved.get(data(row).id)?.kind ?? "";
    const state = subject.state(view);
    const any = (of: (row: NodeRow) => boolean) => [...state.nodes.keys()].some(vertex => of({ vertex, state }));
    const columns: TableColumn<NodeRow>[] = [
      codes("Node", row => data(row).name), { name: "Op", text: row => data(row).op, order: row => data(row).op },
      codes("Target", row => (data(row).op === "placeholder" ? "" : data(row).target)),
    ];
    if (changes.size) {
      const signText = (sign: Sign | undefined) => (sign ? `${GLYPHS[sign]} ${sign}` : "");
      columns.unshift({
        name: "Pass", text: row => signText(changes.get(row.vertex)), order: row => changes.get(row.vertex) ?? null,
      });
    }
    if (view.kind !== "eager") {
      columns.push(codes("Type", row => data(row).type));
      columns.push(figure("Bytes", row => data(row).bytes || null, bytes));
    }
    if (any(row => Boolean(data(row).module))) columns.push(codes("Module", row => data(row).module ?? ""));
    if (any(row => homes(row).length > 0)) {
      columns.push(codes("Kernel", row => homes(row).map(home => home.id).join(", ")));
      columns.push(figure("Kernel time", time, seconds));
    }
    if (saved.size && view.kind !== "captured" && view.kind !== "eager") {
      columns.push({ name: "For the backward", text: row => own(SAVED_KINDS, kind(row)) ?? kind(row),
        order: row => kind(row) || null });
    }
    columns.push(figure("Users", row => row.state.nodes.get(row.vertex)!.users.length));
    return columns;
  }

  return { table, show };
}

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

const KINDS_IN_ORDER = ["saved", "recomputed", "input"] as const;

export function SavedList(context: Context, chosen?: (id: string) => void) {
  const element = h("aside.ex-g-list", { "aria-label": "What the backward reads from the forward" });
  const summary = h("div.ex-g-list-summary");
  let shownCompile: CompileData | null = null;
  const dispose = () => table.dispose();
  const table = DataTable<SavedData>("What the backward reads from the forward", [
    {
      name: "Value", text: each => `${each.kind} ${each.id}`, order: each => each.id,
      cell: each => h("span", glyph(each.kind, own(SAVED_KINDS, each.kind) ?? each.kind), " ", h("code",
        { title: each.id }, each.id)),
    },
    figure("Bytes", each => each.bytes, bytes),
    figure("Recompute", each => each.seconds, seconds),
    { name: "Reason", text: each => reasonText(each.why), order: each => each.why.title,
      cell: each => reasonLink(each.why, context) },
  ], context.selection, {
    keys: each => [key(shownCompile?.id ?? "", each.id)],
    chosen: each => chosen?.(each.id),
  });
  element.append(summary, table.element);

  function show(compile: CompileData): void {
    if (shownCompile === compile) return;
    shownCompile = compile;
    const saved = compile.saved ?? [];
    fill(summary, ...KINDS_IN_ORDER.flatMap(kind => {
      const some = saved.filter(each => each.kind === kind);
      const total = sum(some, each => each.bytes);
      return some.length
        ? [h("div", glyph(kind), ` ${SUMMARY[kind]}: ${count(some.length, "value")}, ${bytes(total)}`)] : [];
    }));
    const rank = (each: SavedData) => KINDS_IN_ORDER.indexOf(each.kind as (typeof KINDS_IN_ORDER)[number]);
    table.show([...saved].sort((a, b) => rank(a) - rank(b) || b.bytes - a.bytes));
  }

  return { element, show, dispose };
}

const SUMMARY = { saved: "Saved", recomputed: "Recomputed", input: "Inputs, in memory anyway" } as const;
