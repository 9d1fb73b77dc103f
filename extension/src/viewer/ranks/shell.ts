// The ranks of one job: which compiles they have in common, where they part, and any two of them stage by stage.

import type { CompilePair } from "../diff/compare";
import { DiffShell } from "../diff/view";
import { type TableColumn, DataTable, figure } from "../datatable";
import { button, fill, h, on } from "../dom";
import { count, grouped, seconds } from "../format";
import type { Host } from "../host";
import { Links } from "../links";
import { menuButton } from "../overlays";
import type { RecordData } from "../record";
import { Saving } from "../saving";
import { Selection } from "../selection";
import { ends, Signal } from "../signal";
import { divided } from "../grid";
import type { RankCompileData, RankData, RanksData, RankDivergenceData } from "./data";

/** `damage` says what of the data was of the wrong kind and is left out. */
export function RanksShell(root: HTMLElement, data: RanksData, host: Host, damage = "") {
  const place = h("div.ex-cell");
  let diff: DiffShell | null = null;
  const choice = (label: string) => h(
    "select.ex-select", { "aria-label": label }, ...data.ranks.map((each, n) => h("option", { value: n }, each.name)));
  const pair = [choice("Compare from"), choice("Compare to")];
  const selection = Selection(new Signal(new Links({ compiles: [] })));
  const compiles = DataTable<RankCompileData>("Compiles by rank", columns(), selection);
  const ranks = DataTable<RankData>("Each rank in numbers", COLUMNS, selection);
  compiles.show(data.compiles);
  ranks.show(data.ranks);
  const notices = [missingText(data), damage && `Left out, since it is damaged: ${damage}`].filter(Boolean)
    .map(text => h("div.ex-notice.ex-warned", { role: "note" }, h("strong", "⚠"), h("span", text)));
  const saving = Saving(root, host);
  const tables = [compiles, ranks].map(
    (each, n) => ({ kind: "txt" as const, name: n === 0 ? "compiles" : "ranks", make: async () => each.text() }));
  const header = h(
    "header.ex-header", h("div.ex-title", h("h1", data.title), h("span.ex-badge",
      { title: "Processes of the job that left logs" }, count(data.ranks.length, "rank"))),
    h("div.ex-tools", menuButton("Save as a file", "Save",
      () => [...saving.whole(data, "job", "ranks.json"), ...saving.items(tables)])),
  );
  const top = h("div.ex-cell", h(
    "div.ex-m-scroll.ex-r-compiles", { tabindex: 0, role: "region", "aria-label": "What the ranks compiled" },
    compiles.element, h("p.ex-hint", LEGEND), ranks.element,
  ));
  const bottom = h("div.ex-cell", h("div.ex-bar", h("label", "From ", pair[0]), h("label", "to ", pair[1])), place);
  fill(root, header, ...notices, h("div.ex-column.ex-m-rows", ...divided([top, bottom], "horizontal", [0.4, 0.6])));
  for (const select of pair) on(select, "change", () => compare());
  const dispose = ends(
    host.dark.watch(dark => root.classList.toggle("ex-dark", dark)), () => compiles.dispose(), () => ranks.dispose(),
    () => diff?.dispose(), () => fill(root),
  );
  first();

  /** Opens on the first compile that differs. */
  function first(): void {
    const found = data.compiles.find(each => each.partings?.length);
    const divergence = found?.partings?.[0];
    if (found && divergence) show(found.kinds.findIndex(Boolean), divergence.rank, found);
    else show(0, Math.min(1, data.ranks.length - 1));
  }

  function show(before: number, after: number, compile?: RankCompileData): void {
    [before, after].forEach((rank, n) => ((pair[n] as HTMLSelectElement).value = String(rank)));
    compare(compile);
  }

  function compare(compile?: RankCompileData): void {
    const [before, after] = pair.map(each => Number(each.value)) as [number, number];
    const [old, fresh] = [record(before), record(after)];
    diff?.dispose();
    diff = null;
    if (!old || !fresh || before === after)
      return fill(place, h("p.ex-hint", "Choose two ranks to see them stage by stage."));
    const first = compile
      && ((pair: CompilePair) => pair.before?.id === compile.ids[before] && pair.after?.id === compile.ids[after]);
    diff = DiffShell(place, old, fresh, host, first);
  }

  /** The record of a rank, called by its rank. */
  function record(rank: number): RecordData | undefined {
    const record = data.records[rank];
    return record && { ...record, title: data.ranks[rank]?.name ?? record.title };
  }

  function columns(): TableColumn<RankCompileData>[] {
    const { ranks } = data;
    return [
      { name: "compile", text: each => each.title, order: each => each.title },
      ...ranks.map((rank, n): TableColumn<RankCompileData> => ({
        name: rank.name, text: each => resultText(each, n), order: each => each.seconds[n] ?? null,
        title: "Letter: group of identical results. Time: compile time",
      })),
      {
        name: "where they first differ",
        text: each =>
          [absentText(each, ranks), ...(each.partings ?? []).map(one => divergenceText(one, ranks))].filter(Boolean)
            .join("; "),
        cell: each => h("span", absentText(each, ranks), ...(each.partings ?? []).map(one =>
          h("span.ex-r-parting", button("ex-reason", divergenceText(one, ranks),
            () => show(each.kinds.findIndex(Boolean), one.rank, each)),
            h("code", `− ${one.before}`), h("code", `+ ${one.after}`), one.also?.length
              ? `and in ${one.also.join(", ")}` : ""))),
      },
    ];
  }

  return { dispose };
}

const number = (name: string, of: (rank: RankData) => number): TableColumn<RankData> => figure(name, of, grouped);

const COLUMNS: readonly TableColumn<RankData>[] = [
  { name: "rank", text: each => each.name, order: each => each.number },
  number("compiles", each => each.compiles), number("recompiles", each => each.recompiles),
  number("graphs", each => each.graphs),
  number("breaks", each => each.breaks), number("guards", each => each.guards),
  { name: "time to compile", text: each => (each.seconds ? seconds(each.seconds) : "not recorded"),
    order: each => each.seconds, numeric: true },
  { name: "damage", text: each => each.error ?? "" },
];

const LEGEND = "Same letter: the same output, except addresses, device index and paths. –: no such compile.";

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
