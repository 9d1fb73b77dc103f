// The difference of two texts: the shortest edit (Myers' algorithm) as runs of lines, also of texts in which the same
// values have other names and lines of the program other numbers; and as rows, in two columns or one.

import type { TextRow } from "../textview";

/** A run of lines that are the same on both sides, or that differ: indices into the two lists. */
interface LineRun {
  readonly kind: "same" | "changed";
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/** How lines that differ are marked beside the text, so that color is not alone in saying it. */
const DIFFERS = { removed: "−", added: "+" } as const;

/** Edits beyond which two texts are said to differ as a whole: the search takes the square of it. */
const MOST_EDITS = 1500;

/** `kept` has the last word on two lines that are the same. */
export function lineDiff(from: readonly string[], to: readonly string[],
    kept: (from: number, to: number) => boolean = () => true): LineRun[] {
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let tail = 0;
  while (tail < from.length - start && tail < to.length - start
    && from[from.length - 1 - tail] === to[to.length - 1 - tail]) tail++;
  const pairs: [number, number][] = [];
  for (let n = 0; n < start; n++) pairs.push([n, n]);
  for (const [a, b] of matches(from.slice(start, from.length - tail), to.slice(start, to.length - tail)))
    pairs.push([a + start, b + start]);
  for (let n = tail; n > 0; n--) pairs.push([from.length - n, to.length - n]);
  return runs(pairs.filter(([a, b]) => kept(a, b)), from.length, to.length);
}

/** Pairs of indices of lines kept, ascending. */
function matches(from: readonly string[], to: readonly string[]): [number, number][] {
  const most = Math.min(from.length + to.length, MOST_EDITS);
  const offset = most + 1;
  let furthest = new Int32Array(2 * most + 3);
  const history: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    history.push(furthest);
    furthest = furthest.slice();
    for (let k = -edits; k <= edits; k += 2) {
      const [left, right] = [furthest[offset + k - 1] as number, furthest[offset + k + 1] as number];
      let x = k === -edits || (k !== edits && left < right) ? right : left + 1;
      while (x < from.length && x - k < to.length && from[x] === to[x - k]) x++;
      furthest[offset + k] = x;
      if (x >= from.length && x - k >= to.length) return walkedBack(history, edits, offset, from.length, to.length);
    }
  }
  return [];
}

function walkedBack(history: readonly Int32Array[], edits: number, offset: number, x: number,
    y: number): [number, number][] {
  const found: [number, number][] = [];
  for (let d = edits; d >= 0; d--) {
    const furthest = history[d] as Int32Array;
    const k = x - y;
    const [left, right] = [furthest[offset + k - 1] as number, furthest[offset + k + 1] as number];
    const down = k === -d || (k !== d && left < right);
    const startX = d === 0 ? 0 : down ? right : left + 1;
    while (x > startX && x > 0 && y > 0) found.push([--x, --y]);
    if (d === 0) break;
    if (down) y--;
    else x--;
  }
  return found.reverse();
}

function runs(pairs: readonly (readonly [number, number])[], before: number, after: number): LineRun[] {
  const found: { kind: LineRun["kind"]; from: number[]; to: number[] }[] = [];
  const add = (kind: LineRun["kind"], from: readonly number[], to: readonly number[]) => {
    const last = found[found.length - 1];
    if (last?.kind !== kind) found.push({ kind, from: [...from], to: [...to] });
    else {
      last.from.push(...from);
      last.to.push(...to);
    }
  };
  let [a, b] = [0, 0];
  for (const [x, y] of [...pairs, [before, after] as const]) {
    if (x > a || y > b) add("changed", range(a, x), range(b, y));
    if (x < before && y < after) add("same", [x], [y]);
    [a, b] = [x + 1, y + 1];
  }
  return found;
}

const range = (low: number, high: number): number[] => Array.from({ length: high - low }, (_, n) => low + n);

const WORD = /[A-Za-z_]\w*/g;
/** "sum_1: f32[4] = …", "float v1 = …", "out0[x0] = …": what is left of the sign is a name that the text gives. */
const GIVEN = /\b([A-Za-z_]\w*)(?:\[[^\]]{0,60}\])?(?: = |: )/g;

/** Runs of lines that are the same, or the same with each name on one side in the place of one on the other; `alike`
 * says whether the texts as a whole are. */
export function renamedDiff(from: readonly string[],
    to: readonly string[]): { readonly runs: readonly LineRun[]; readonly alike: boolean } {
  const [mine, theirs] = [namesIn(from), namesIn(to)];
  const [forth, back] = [new Map<string, string>(), new Map<string, string>()];
  let alike = true;
  const runs = lineDiff(nameless(from, mine), nameless(to, theirs), (a, b) => {
    const [own, other] = [named(from[a]!, mine), named(to[b]!, theirs)];
    const fits =
      own.every((name, n) => (forth.get(name) ?? other[n]) === other[n] && (back.get(other[n]!) ?? name) === name);
    if (fits) own.forEach((name, n) => (forth.set(name, other[n]!), back.set(other[n]!, name)));
    alike &&= fits;
    return fits || from[a] === to[b];
  });
  return { runs, alike: alike && runs.every(run => run.kind === "same") };
}

const renamedRuns = (from: readonly string[], to: readonly string[]): readonly LineRun[] => renamedDiff(from, to).runs;

function namesIn(lines: readonly string[]): ReadonlySet<string> {
  return new Set(lines.flatMap(line => [...line.matchAll(GIVEN)].map(match => match[1]!)));
}

function named(line: string, names: ReadonlySet<string>): string[] {
  return (line.match(WORD) ?? []).filter(word => names.has(word));
}

function nameless(lines: readonly string[], names: ReadonlySet<string>): string[] {
  return lines.map(line =>
    line.replace(/#.*/, comment => comment.replace(/:\d+/g, "")).replace(WORD, word => (names.has(word) ? "·" : word)));
}

const CONTEXT = 3;

interface Aligned {
  readonly before: readonly TextRow[];
  readonly after: readonly TextRow[];
  /** The rows at which a difference begins. */
  readonly starts: readonly number[];
  readonly removed: number;
  readonly added: number;
}

/** Two columns of equal length: what has no counterpart faces an empty line. */
export function aligned(before: readonly TextRow[], after: readonly TextRow[], folded: boolean,
    diff = renamedRuns): Aligned {
  const [left, right, starts]: [TextRow[], TextRow[], number[]] = [[], [], []];
  const runs = diff(before.map(row => row.text), after.map(row => row.text));
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
export function unified(before: readonly TextRow[], after: readonly TextRow[], folded: boolean,
    diff = renamedRuns): { rows: TextRow[]; starts: number[] } {
  const columns = aligned(before, after, folded, diff);
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

/** The part of a run of equal lines that is hidden: all but a few lines beside a difference. */
function foldOf(length: number, first: boolean, last: boolean): { from: number; to: number } | null {
  const from = first ? 0 : CONTEXT;
  const to = length - (last ? 0 : CONTEXT);
  return to - from > 1 ? { from, to } : null;
}
