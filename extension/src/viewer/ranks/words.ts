// What is said of ranks.

import { seconds } from "../format";
import type { RankCompileData, RankData, RankDivergenceData, RanksData } from "./data";

export const LEGEND = "Same letter: the same output, except addresses, device index and paths. –: no such compile.";

export function resultText(compile: RankCompileData, rank: number): string {
  const [kind, spent] = [compile.kinds[rank], compile.seconds[rank]];
  return kind ? `${kind} ${spent == null ? "" : seconds(spent)}`.trim() : "–";
}

export function divergenceText({ rank, what, line }: RankDivergenceData, ranks: readonly RankData[]): string {
  return `${ranks[rank]?.name ?? `rank ${rank}`}: ${what}, line ${line}`;
}

/** "" where none is missing. */
export function missingText({ missing = [] }: RanksData): string {
  if (missing.length === 0) return "";
  return missing.length === 1 ? `Rank ${missing[0]} left no log here.` : `Ranks ${ranges(missing)} left no logs here.`;
}

/** "0 to 2, 5". */
function ranges(numbers: readonly number[]): string {
  const found: [number, number][] = [];
  for (const each of numbers) {
    const last = found.at(-1);
    if (last && each === last[1] + 1) last[1] = each;
    else found.push([each, each]);
  }
  return found.map(([from, to]) => (from === to ? String(from) : `${from} to ${to}`)).join(", ");
}

/** Which ranks do not have a compile that others have; "" where all do. */
export function absentText({ kinds }: RankCompileData, ranks: readonly RankData[]): string {
  const without = ranks.filter((_, n) => !kinds[n]).map(each => each.name);
  return without.length ? `not compiled on ${without.join(", ")}` : "";
}
