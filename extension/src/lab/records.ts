// The records in a notebook's outputs, rendered or not.

import type { CodeCell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { MIME } from "../viewer/record";

export interface Found {
  readonly cell: CodeCell;
  /** Position of the cell in the notebook. */
  readonly index: number;
  /** The execution count that the notebook shows; null where the cell has not run here. */
  readonly count: number | null;
  /** As it stands in the output: its title is text, and the rest may be anything. */
  readonly record: Titled;
}

export interface Titled {
  readonly title: string;
  readonly [field: string]: unknown;
}

export function recordsOf(panel: NotebookPanel): Found[] {
  return panel.content.widgets.flatMap((widget, index) => {
    if (widget.model.type !== "code") return [];
    const cell = widget as CodeCell;
    const count = cell.model.executionCount;
    return outputsOf(cell).map(record => ({ cell, index, count, record }));
  });
}

/** What tells a record from others, also from a copy that grew or was cut: those of one second began at different
 * moments. */
export function stamp({ title, created, compiles }: { readonly [field: string]: unknown }): string {
  const first: unknown = Array.isArray(compiles) ? compiles[0] : null;
  return JSON.stringify(
    [title, created, typeof first === "object" && first !== null && "started" in first ? first.started : null]);
}

function outputsOf(cell: CodeCell): Titled[] {
  const outputs = cell.model.outputs;
  const data: unknown[] = Array.from({ length: outputs.length }, (_, n) => outputs.get(n).data[MIME]);
  return data.filter(isTitled);
}

function isTitled(data: unknown): data is Titled {
  return typeof data === "object" && data !== null && "title" in data && typeof data.title === "string";
}
