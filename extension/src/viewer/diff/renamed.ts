// The difference of two texts in which the same values may have other names, and lines of the program other numbers.

import { lineDiff, type LineRun } from "../linediff";

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
