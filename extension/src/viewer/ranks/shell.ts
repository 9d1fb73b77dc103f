// The ranks of one job: which compiles they have in common, where they part, and any two of them stage by stage.

import type { CompilePair } from "../diff/compare";
import { DiffShell } from "../diff/shell";
import { type Column, DataTable, figure } from "../datatable";
import { button, fill, h, on } from "../dom";
import { count, seconds } from "../format";
import type { Host } from "../host";
import { Links } from "../links";
import { menuButton } from "../menu";
import type { RecordData } from "../record";
import { Saving } from "../saving";
import { Selection } from "../selection";
import { type Dispose, Signal } from "../signal";
import { divided } from "../split";
import type { RankCompileData, RankData, RanksData } from "./data";
import { absentText, LEGEND, missingText, partingText, resultText } from "./words";

export class RanksShell {
  readonly #root: HTMLElement;
  readonly #host: Host;
  readonly #data: RanksData;
  readonly #pair: readonly [HTMLSelectElement, HTMLSelectElement];
  readonly #place = h("div.ex-cell");
  readonly #disposers: Dispose[] = [];
  #diff: DiffShell | null = null;

  /** `damage` says what of the data was of the wrong kind and is left out. */
  constructor(root: HTMLElement, data: RanksData, host: Host, damage = "") {
    this.#root = root;
    this.#host = host;
    this.#data = data;
    const choice = (label: string) => h("select.ex-select", { "aria-label": label }, ...data.ranks.map((each, n) => h("option", { value: n }, each.name)));
    this.#pair = [choice("Compare from"), choice("Compare to")];
    const selection = new Selection(new Signal(new Links({ compiles: [] })));
    const compiles = new DataTable<RankCompileData>("Compiles by rank", this.#columns(), selection);
    const ranks = new DataTable<RankData>("Each rank in numbers", COLUMNS, selection);
    compiles.show(data.compiles);
    ranks.show(data.ranks);
    const notices = [missingText(data), damage && `Left out, since it is damaged: ${damage}`].filter(Boolean)
      .map(text => h("div.ex-notice.ex-warned", { role: "note" }, h("strong", "⚠"), h("span", text)));
    const saving = new Saving(root, host);
    const tables = [compiles, ranks].map((each, n) => ({ kind: "txt" as const, name: n === 0 ? "compiles" : "ranks", make: async () => each.text() }));
    const header = h(
      "header.ex-header", h("div.ex-title", h("h1", data.title), h("span.ex-badge", count(data.ranks.length, "rank"))),
      h("div.ex-tools", menuButton("Save as a file", "Save", () => [...saving.whole(data, "job", "ranks.json"), ...saving.items(tables)])),
    );
    const top = h("div.ex-cell", h(
      "div.ex-m-scroll.ex-r-compiles", { tabindex: 0, role: "region", "aria-label": "What the ranks compiled" },
      compiles.element, h("p.ex-hint", LEGEND), ranks.element,
    ));
    const bottom = h("div.ex-cell", h("div.ex-bar", h("label", "From ", this.#pair[0]), h("label", "to ", this.#pair[1])), this.#place);
    fill(root, header, ...notices, h("div.ex-column.ex-m-rows", ...divided([top, bottom], "horizontal", [0.4, 0.6])));
    for (const select of this.#pair) on(select, "change", () => this.#compare());
    this.#disposers.push(host.dark.watch(dark => root.classList.toggle("ex-dark", dark)), () => compiles.dispose(), () => ranks.dispose());
    this.#first();
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#diff?.dispose();
    fill(this.#root);
  }

  /** Opens on the first compile that differs. */
  #first(): void {
    const found = this.#data.compiles.find(each => each.partings?.length);
    const parting = found?.partings?.[0];
    if (found && parting) this.#show(found.kinds.findIndex(Boolean), parting.rank, found);
    else this.#show(0, Math.min(1, this.#data.ranks.length - 1));
  }

  #show(before: number, after: number, compile?: RankCompileData): void {
    [before, after].forEach((rank, n) => ((this.#pair[n] as HTMLSelectElement).value = String(rank)));
    this.#compare(compile);
  }

  #compare(compile?: RankCompileData): void {
    const [before, after] = this.#pair.map(each => Number(each.value)) as [number, number];
    const [old, fresh] = [this.#record(before), this.#record(after)];
    this.#diff?.dispose();
    this.#diff = null;
    if (!old || !fresh || before === after) return fill(this.#place, h("p.ex-hint", "Choose two ranks to see them stage by stage."));
    const first = compile && ((pair: CompilePair) => pair.before?.id === compile.ids[before] && pair.after?.id === compile.ids[after]);
    this.#diff = new DiffShell(this.#place, old, fresh, this.#host, first);
  }

  /** The record of a rank, called by its rank. */
  #record(rank: number): RecordData | undefined {
    const record = this.#data.records[rank];
    return record && { ...record, title: this.#data.ranks[rank]?.name ?? record.title };
  }

  #columns(): Column<RankCompileData>[] {
    const { ranks } = this.#data;
    return [
      { name: "compile", text: each => each.title, order: each => each.title },
      ...ranks.map((rank, n): Column<RankCompileData> => ({
        name: rank.name, text: each => resultText(each, n), order: each => each.seconds[n] ?? null, title: "Letter: group of identical results. Time: compile time",
      })),
      {
        name: "where they first differ", text: each => [absentText(each, ranks), ...(each.partings ?? []).map(one => partingText(one, ranks))].filter(Boolean).join("; "),
        cell: each => h("span", absentText(each, ranks), ...(each.partings ?? []).map(one =>
          h("span.ex-r-parting", button("ex-reason", partingText(one, ranks), () => this.#show(each.kinds.findIndex(Boolean), one.rank, each)),
            h("code", `− ${one.before}`), h("code", `+ ${one.after}`), one.also?.length ? `and in ${one.also.join(", ")}` : ""))),
      },
    ];
  }
}

const number = (name: string, of: (rank: RankData) => number): Column<RankData> => figure(name, of, value => value.toLocaleString("en"));

const COLUMNS: readonly Column<RankData>[] = [
  { name: "rank", text: each => each.name, order: each => each.number },
  number("compiles", each => each.compiles), number("recompiles", each => each.recompiles), number("graphs", each => each.graphs),
  number("breaks", each => each.breaks), number("guards", each => each.guards),
  { name: "time to compile", text: each => (each.seconds ? seconds(each.seconds) : "not recorded"), order: each => each.seconds, numeric: true },
  { name: "damage", text: each => each.error ?? "" },
];
