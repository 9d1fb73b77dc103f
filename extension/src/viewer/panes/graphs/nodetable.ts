// The nodes of a graph as a table: the same facts as the drawing's.

import { codes, type TableColumn, DataTable, figure } from "../../datatable";
import { key } from "../../element";
import { bytes, seconds } from "../../format";
import { own, sum } from "../../collections";
import type { Selection } from "../../selection";
import type { Sign, GraphState } from "./family";
import { GLYPHS } from "./svg";
import { SAVED_KINDS, type ScenePart } from "./scene";

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

export type NodeTable = ReturnType<typeof NodeTable>;
