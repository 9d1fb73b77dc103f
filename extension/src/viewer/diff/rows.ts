// The difference of two texts as rows: aligned for two columns, or one below the other.

import { DIFFERS, type LineRun } from "../linediff";
import type { TextRow } from "../textview";
import { renamedDiff } from "./renamed";

const CONTEXT = 3;

export interface Aligned {
  readonly before: readonly TextRow[];
  readonly after: readonly TextRow[];
  /** The rows at which a difference begins. */
  readonly starts: readonly number[];
  readonly removed: number;
  readonly added: number;
}

/** Two columns of equal length: what has no counterpart faces an empty line. */
export function aligned(before: readonly TextRow[], after: readonly TextRow[], folded: boolean): Aligned {
  const [left, right, starts]: [TextRow[], TextRow[], number[]] = [[], [], []];
  const runs = runsOf(before, after);
  let [removed, added] = [0, 0];
  for (const [n, run] of runs.entries()) {
    if (run.kind === "same") {
      const hidden = folded ? foldOf(run.from.length, n === 0, n === runs.length - 1) : null;
      for (let at = 0; at < run.from.length; at++) {
        if (hidden && at === hidden.from) {
          const fold: TextRow = { text: `${hidden.to - hidden.from} lines are the same`, style: "heading" };
          left.push(fold);
          right.push(fold);
          at = hidden.to - 1;
          continue;
        }
        left.push(before[run.from[at] as number] as TextRow);
        right.push(after[run.to[at] as number] as TextRow);
      }
      continue;
    }
    starts.push(left.length);
    removed += run.from.length;
    added += run.to.length;
    for (let at = 0; at < Math.max(run.from.length, run.to.length); at++) {
      left.push(side(before, run.from[at], "removed"));
      right.push(side(after, run.to[at], "added"));
    }
  }
  return { before: left, after: right, starts, removed, added };
}

/** One column: what went, then what came. */
export function unified(before: readonly TextRow[], after: readonly TextRow[],
    folded: boolean): { rows: TextRow[]; starts: number[] } {
  const columns = aligned(before, after, folded);
  const rows: TextRow[] = [];
  const starts: number[] = [];
  for (let n = 0; n < columns.before.length; ) {
    const [left, right] = [columns.before[n] as TextRow, columns.after[n] as TextRow];
    if (!differs(left) && !differs(right)) {
      rows.push(right);
      n++;
      continue;
    }
    let end = n;
    while (end < columns.before.length
      && (differs(columns.before[end] as TextRow) || differs(columns.after[end] as TextRow))) end++;
    starts.push(rows.length);
    for (const column of [columns.before, columns.after])
      rows.push(...column.slice(n, end).filter(row => row.style !== "filler"));
    n = end;
  }
  return { rows, starts };
}

const differs = (row: TextRow): boolean => row.style === "added" || row.style === "removed" || row.style === "filler";

function side(rows: readonly TextRow[], at: number | undefined, style: "added" | "removed"): TextRow {
  return at === undefined ? { text: "", style: "filler" } : { ...(rows[at] as TextRow), style, number: DIFFERS[style] };
}

function runsOf(before: readonly TextRow[], after: readonly TextRow[]): readonly LineRun[] {
  return renamedDiff(before.map(row => row.text), after.map(row => row.text)).runs;
}

/** The part of a run of equal lines that is hidden: all but a few lines beside a difference. */
function foldOf(length: number, first: boolean, last: boolean): { from: number; to: number } | null {
  const from = first ? 0 : CONTEXT;
  const to = length - (last ? 0 : CONTEXT);
  return to - from > 1 ? { from, to } : null;
}
