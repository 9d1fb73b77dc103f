// The shortest edit from one list of lines to another (Myers' algorithm), as runs.

/** A run of lines that are the same on both sides, or that differ: indices into the two lists. */
export interface LineRun {
  readonly kind: "same" | "changed";
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/** How lines that differ are marked beside the text, so that color is not alone in saying it. */
export const DIFFERS = { removed: "−", added: "+" } as const;

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
