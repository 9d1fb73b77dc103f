// How fast it is beside eager and stock, where the time goes, how near that is to what the machine can do, and how exact.

import { codes, type Column, DataTable, figure } from "../../datatable";
import { button, fill, h, on } from "../../dom";
import { key, type Key } from "../../element";
import { bytes, count, percent, phrase, scaled, seconds } from "../../format";
import type { Context, Export, Pane, PaneKind } from "../../pane";
import { part, Picture, type Shown } from "../../picture";
import type { AccuracyData, DivergenceData, RecordData, SamplesData } from "../../record";
import { type Dispose, Signal } from "../../signal";
import { drawBars } from "./bars";
import { costsOf, performance, rate, usable, whyNoOverhead, type Cost } from "./costs";
import { paysOffAfter, withQuartiles, writtenError } from "./figures";
import { Retime } from "./retime";
import { drawRoofline, pointsOf } from "./roofline";
import { contestants, type Run, Runs } from "./runs";
import { drawStrips } from "./strips";
import { TITLES } from "../titles";
import { least, most } from "../../gather";

export const timing: PaneKind = {
  id: "timing",
  title: TITLES.timing,
  open: (into, context) => new TimingPane(into, context),
};

class TimingPane implements Pane {
  readonly #runs = new Runs();
  readonly #chosen = new Signal<string | null>(null);
  readonly #strips: Picture<SamplesData>;
  readonly #bars: Picture<Cost>;
  readonly #roofline: Picture<Cost>;
  readonly #runTable: DataTable<Run>;
  readonly #retime: Retime;
  readonly #runPart: HTMLElement;
  readonly #accuracyPart = h("section.ex-picture");
  readonly #method = h("p.ex-say");
  readonly #untimed = h("p.ex-say");
  readonly #kernelsSay = h("p.ex-say");
  readonly #otherSizes = h("p.ex-say", "These are from the record's own run, with its sizes.");
  readonly #roofSay = h("p.ex-say");
  readonly #more = h("button.ex-link", { type: "button" });
  #all = false;
  #drawn = false;
  readonly #disposers: Dispose[] = [];
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    const { selection, model, host } = context;
    const link = { keys: (each: Cost) => [key(each.compile, each.id)] };
    this.#strips = new Picture("A whole call", new DataTable<SamplesData>("Seconds of a call", this.#contestantColumns(), selection), selection, context.setting<Shown>("calls", "drawing"));
    this.#bars = new Picture("Kernel by kernel", new DataTable<Cost>("Kernels and library calls", [], selection, link), selection, context.setting<Shown>("kernels", "drawing"));
    this.#roofline = new Picture("Roofline", new DataTable<Cost>("Kernels against the machine's peaks", [], selection, link), selection, context.setting<Shown>("roofline", "drawing"));
    this.#runTable = new DataTable<Run>("Runs", [], selection);
    this.#runPart = part("Runs", [], this.#runTable.element);
    this.#retime = new Retime(() => model.record.value.created.replace("T", " ").replace(/\+00:00$/, " UTC"), {
      retime: shapes => {
        this.#chosen.value = this.#runs.start(shapes);
        host.live.value?.send({ type: "retime", run: this.#chosen.value, shapes });
      },
      stop: () => host.live.value?.send({ type: "stop", run: this.#runs.running?.id ?? "" }),
    });
    this.#strips.element.append(this.#method);
    this.#strips.element.insertBefore(this.#untimed, this.#strips.element.children[1] ?? null);
    this.#bars.element.insertBefore(this.#kernelsSay, this.#bars.element.children[1] ?? null);
    this.#bars.element.append(this.#more, this.#otherSizes);
    this.#roofline.element.insertBefore(this.#roofSay, this.#roofline.element.children[1] ?? null);
    on(this.#more, "click", () => {
      this.#all = !this.#all;
      this.#showKernels();
    });
    const beside = (...parts: readonly HTMLElement[]) => h("div.ex-two", ...parts);
    into.append(h("div.ex-pad", beside(this.#strips.element, this.#accuracyPart), this.#runPart, this.#retime.element, beside(this.#bars.element, this.#roofline.element)));
    let leave: Dispose = () => undefined;
    this.#disposers.push(
      model.record.watch(record => {
        this.#runs.recorded(record.timing);
        this.#showKernels();
      }),
      this.#runs.all.watch(() => this.#soon()),
      this.#chosen.watch(() => this.#soon()),
      context.abilities.watch(() => this.#showRetime()),
      host.live.watch(live => {
        this.#showRetime();
        leave();
        leave = live?.listen(message => this.#runs.take(message)) ?? (() => undefined);
        if (!live) this.#runs.lost();
      }),
      () => leave(),
    );
    this.#showRun();
  }

  reveal(what: Key): boolean {
    return this.#bars.reveal(what);
  }

  exports(): readonly Export[] {
    const name = this.#context.model.record.value.title.replace(/\W+/g, "_");
    return [
      ...(this.#drawn ? this.#strips.exports(`${name}-calls`) : []),
      ...(costsOf(this.#context.model.record.value).some(each => each.seconds !== null) ? this.#bars.exports(`${name}-kernels`) : []),
      ...(this.#roofline.element.hidden ? [] : this.#roofline.exports(`${name}-roofline`)),
    ];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    for (const each of [this.#strips, this.#bars, this.#roofline, this.#runTable]) each.dispose();
  }

  /** Samples come many times a second; what they change is drawn once a frame. */
  #waiting = false;
  #soon(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      this.#showRun();
    });
  }

  #showRetime(): void {
    const { abilities, host } = this.#context;
    this.#retime.show(abilities.value, host.live.value !== null);
  }

  get #run(): Run | undefined {
    const { value: all } = this.#runs.all;
    return all.find(each => each.id === this.#chosen.value) ?? all.at(-1);
  }

  #showRun(): void {
    const run = this.#run;
    const record = this.#context.model.record.value;
    const shown = run ? contestants(run) : [];
    this.#drawn = shown.some(each => each.samples.length > 0);
    this.#untimed.textContent = run?.state === "failed" ? `This run did not finish: ${run.error}.` : this.#drawn || run ? "" : whyUntimed(record) + (this.#context.abilities.value?.retime ? " Time again, below, times it now." : "");
    this.#untimed.hidden = this.#untimed.textContent === "";
    this.#strips.table.show(shown, this.#contestantColumns(shown));
    this.#strips.show(width => drawStrips(shown, width), this.#drawn);
    const method = run?.timing?.method ?? record.timing?.method;
    this.#method.textContent = method && this.#drawn ? `How it was measured: ${method}.` : "";
    this.#retime.tell(this.#runs.running);
    this.#otherSizes.hidden = run === undefined || run.id === "";
    this.#showRuns();
    this.#showAccuracy([run?.timing?.accuracy, run?.timing?.stock_accuracy].filter(each => !!each), run);
  }

  #showRuns(): void {
    const all = this.#runs.all.value;
    this.#runPart.hidden = all.length < 2;
    const names = [...new Set(all.flatMap(run => contestants(run).map(each => each.name)))];
    const of = (run: Run, name: string) => contestants(run).find(each => each.name === name);
    this.#runTable.show(all, [
      {
        name: "Run", text: run => run.name, cell: run => button("ex-choice", run.name, () => (this.#chosen.value = run.id), { "aria-pressed": String(run === this.#run) }),
      },
      { name: "Sizes", text: run => Object.entries(run.shapes).map(([name, sizes]) => `${name} ${sizes.join("×")}`).join(", ") || "as in the record" },
      ...names.map((name): Column<Run> => ({ ...figure(name, run => of(run, name)?.median), text: run => (of(run, name) ? withQuartiles(of(run, name)!) : "") })),
      { name: "State", text: run => (run.state === "failed" ? run.error : run.state === "running" ? run.doing || "running" : "") },
    ]);
  }

  #contestantColumns(shown: readonly SamplesData[] = []): Column<SamplesData>[] {
    const eager = shown.find(each => each.name === "eager");
    return [
      { name: "Contestant", text: each => each.name, cell: each => h("strong", each.name) },
      { name: "Median (quartiles)", numeric: true, text: withQuartiles, order: each => each.median },
      {
        name: "Beside eager", title: "The median of the samples' ratios, and the interval that holds the true one with 95 % confidence",
        text: each => each.speed?.said ?? "", order: each => each.speed?.times ?? null,
      },
      figure("Peak memory", each => each.peak, bytes, "Peak memory allocated during one call, forward and backward; a memory pool kept between calls counts"),
      figure("Least", each => (each.samples.length ? least(each.samples) : null), seconds),
      figure("Most", each => (each.samples.length ? most(each.samples) : null), seconds),
      figure("Samples", each => each.samples.length),
      figure("Compile", each => each.compile_seconds, seconds),
      figure("Pays off after", each => eager && paysOffAfter(each, eager), calls => `${calls.toLocaleString("en")} calls`, "Break-even: calls needed for the faster run time to make up for the compile time"),
      { name: "Note", text: each => each.note ?? "" },
    ];
  }

  /** Of each engine that compiled. */
  #showAccuracy(found: readonly AccuracyData[], run: Run | undefined): void {
    if (!found.length || (run && run.id !== "" && !run.timing?.accuracy)) {
      fill(this.#accuracyPart);
      return;
    }
    const parts = found.map(each => h("dl.ex-facts.ex-beside", ...this.#accuracyRows(each, found.length > 1)));
    fill(this.#accuracyPart, h("header", h("h2", "Accuracy against eager")), ...parts);
  }

  #accuracyRows(accuracy: AccuracyData, named: boolean): readonly HTMLElement[] {
    const { largest_absolute: absolute, largest_relative: relative, where, first_parting: first, compared, parting } = accuracy;
    const fact = (name: string, ...value: readonly (Node | string)[]) => [h("dt", name), h("dd", ...value)];
    const rows = [
      ...(named ? fact("Engine", accuracy.engine ?? "explorer") : []),
      ...fact("Largest error", where ? `${writtenError(absolute)} absolute, ${writtenError(relative)} relative, in ${where}` : "none: every value is equal"),
      ...fact("Compared", count(compared ?? 0, "tensor"), " (results and gradients) with eager's"),
      ...fact("Within tolerance", first ? `no: ${first} is the first that is not` : "yes"),
    ];
    if (parting && !parting.node) {
      rows.push(...fact("Where", parting.detail ?? "unknown", ...(typeof parting.error === "number" ? [`. ${againstFloat64(parting)}`] : [])));
    } else if (parting) {
      const open = (pane: string, id: string) => button("ex-link", id, () => this.#context.show(pane, key(parting.compile, id)));
      rows.push(...fact(
        "First differs at", open("graphs", parting.node), ` in ${parting.compile} ${parting.half}`, ...(parting.kernel ? [", written by ", open("code", parting.kernel)] : []),
        `. ${againstFloat64(parting)}`, parting.detail ? ` ${parting.detail}` : "",
      ));
    }
    return rows;
  }

  #showKernels(): void {
    const record = this.#context.model.record.value;
    const costs = costsOf(record);
    const machine = record.timing?.machine ?? null;
    const timed = costs.filter(each => each.seconds !== null);
    const overhead = record.timing?.overhead ?? null;
    const total = timed.reduce((sum, each) => sum + (each.seconds ?? 0), 0);
    this.#bars.element.hidden = costs.length === 0;
    this.#kernelsSay.textContent = saidOfKernels(record, costs);
    this.#bars.table.show(costs, this.#costColumns(record, total));
    this.#bars.show((width, linked) => drawBars({ costs, overhead, machine, all: this.#all }, width, linked), timed.length > 0);
    this.#more.hidden = timed.length <= 26;
    this.#more.textContent = this.#all ? "Show the longest only" : `Show all ${timed.length}`;
    this.#showRoofline(record, costs);
  }

  #showRoofline(record: RecordData, costs: readonly Cost[]): void {
    const machine = record.timing?.machine;
    const points = machine ? pointsOf(costs, machine) : [];
    this.#roofline.element.hidden = !machine || points.length === 0;
    if (!machine || points.length === 0) return;
    const moving = costs.filter(each => each.kind === "kernel" && each.flops === 0 && each.seconds !== null).length;
    const above = points.filter(each => each.at.share > 1).length;
    const said = [
      `The roof is what this machine reached when measured (${machine.name}): a large copy and a float32 matrix product.`,
      moving ? `${count(moving, "kernel only moves bytes and has", "kernels only move bytes and have")} no place here.` : "",
      costs.some(each => each.kind === "call") ? "Library calls are not here: what they move is not counted." : "",
      above ? `${count(above, "kernel lies", "kernels lie")} above the roof: what ${above === 1 ? "it reads" : "they read"} was probably in a cache, which is faster than memory.` : "",
    ];
    this.#roofSay.textContent = phrase(said, " ");
    this.#roofline.table.show(costs.filter(each => each.kind === "kernel" && performance(each, machine) !== null), this.#costColumns(record, 0).filter(each => each.name !== "Share"));
    this.#roofline.show((width, linked) => drawRoofline(costs, machine, width, linked));
  }

  #costColumns(record: RecordData, total: number): Column<Cost>[] {
    const machine = record.timing?.machine;
    const found = (each: Cost) => (machine && usable(machine) ? performance(each, machine) : null);
    const several = new Set(record.compiles.flatMap(each => each.halves?.map(half => half.name) ?? [])).size > 1;
    const columns: Column<Cost>[] = [
      codes("Kernel", each => each.id),
      { name: "Of", text: each => `${each.compile} ${each.half}`.trim(), order: each => `${each.compile} ${each.half}` },
      { name: "Runs", text: each => each.runs },
      { name: "Takes", numeric: true, text: each => (each.seconds === null ? "not timed" : seconds(each.seconds)), order: each => each.seconds },
      figure("Share", each => (each.seconds === null || total === 0 ? null : each.seconds / total), percent),
      figure("Moves", each => each.bytes, bytes),
      figure("Bandwidth", each => rate(each.bytes, each.seconds), value => scaled(value, "B/s")),
      figure("Computes", each => each.flops, value => scaled(value, "FLOP")),
      figure("Rate", each => rate(each.flops, each.seconds), value => scaled(value, "FLOP/s")),
      { name: "Of peak", numeric: true, title: "The machine's bandwidth or arithmetic, whichever bounds it", text: each => (found(each) ? `${percent(found(each)?.share ?? 0)} of ${found(each)?.bound}` : ""), order: each => found(each)?.share ?? null },
    ];
    return columns.filter(each => several || each.name !== "Of");
  }
}

function saidOfKernels(record: RecordData, costs: readonly Cost[]): string {
  const timed = costs.filter(each => each.seconds !== null);
  if (timed.length === 0) {
    const elsewhere = record.compiles.some(each => each.halves?.some(half => half.runs === false));
    return `No kernel was timed by itself${elsewhere ? ": they were made for a machine that is not here" : ""}. What each moves and computes:`;
  }
  const total = timed.reduce((sum, each) => sum + (each.seconds ?? 0), 0);
  const why = whyNoOverhead(record, costs);
  return `${counted(timed)}, ${seconds(total)} together`
    + (timed.length < costs.length ? `; ${costs.length - timed.length} could not be timed` : "")
    + (why ? `. What is spent outside them is not known: ${why}.` : ".");
}

function counted(timed: readonly Cost[]): string {
  const calls = timed.filter(each => each.kind === "call").length;
  const kernels = timed.length - calls;
  return phrase([kernels ? count(kernels, "kernel") : "", calls ? count(calls, "library call") : ""], " and ");
}

/** Why a record has no timing, as far as it tells. */
function whyUntimed(record: RecordData): string {
  if (record.compiles.some(each => each.halves?.some(half => half.runs === false)) && record.target) {
    return `It was not timed: the code is for ${record.target}, and was made where that does not run it.`;
  }
  if (record.calls?.length) return "A watched program is not timed beside eager: Breaks lists its calls and their times.";
  if (record.error) return `It was not timed: ${record.error}`;
  return "It has not been timed: it was explored with time=False (--no-time), or timing has not begun.";
}

/** How far both are from the referee: the graph in float64, or eager where an operator has no such form. */
function againstFloat64({ error, eager_error: eager }: DivergenceData): string {
  const ours = error === null ? "not finite, or of another shape" : `off by ${writtenError(error)}`;
  return eager === null || eager === undefined ? `It is ${ours}, beside eager.` : `Against float64 it is ${ours}, eager off by ${writtenError(eager)}.`;
}
