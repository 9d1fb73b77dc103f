// How fast it is beside eager and stock, where the time goes, how near that is to what the machine can do, and how
// exact.

import { codes, type TableColumn, DataTable, figure } from "../../datatable";
import { button, fill, h, on } from "../../dom";
import { key, type Key } from "../../element";
import { hears } from "../../host";
import { bytes, count, percent, phrase, scaled, seconds } from "../../format";
import type { Context, Export, Pane } from "../../pane";
import { part, Picture, type Presentation } from "../../picture";
import type { AccuracyData, DivergenceData, RecordData, SamplesData } from "../../record";
import { ends, Signal, watchAny } from "../../signal";
import { drawBars, drawStrips } from "./draw";
import { costsOf, performance, rate, usable, whyNoOverhead, type Cost } from "./costs";
import { paysOffAfter, withQuartiles, writtenError } from "./figures";
import { RetimeForm } from "./retime";
import { drawRoofline, MOST_POINTS, pointsOf } from "./roofline";
import { contestants, type TimedRun, Runs } from "./runs";
import { least, most } from "../../collections";

export function timing(into: HTMLElement, context: Context): Pane {
  const runs = Runs();
  const chosen = new Signal<string | null>(null);
  const accuracyPart = h("section.ex-picture");
  const methodSay = h("p.ex-say");
  const untimed = h("p.ex-say");
  const kernelsSay = h("p.ex-say");
  const otherSizes = h("p.ex-say", "These are from the record's own run, with its sizes.");
  const roofSay = h("p.ex-say");
  const more = h("button.ex-link", { type: "button" });
  let all = false;
  let drawn = false;
  /** Samples come many times a second; what they change is drawn once a frame. */
  let waiting = false;
  const reveal = (what: Key): boolean => bars.reveal(what);
  const { selection, model, host } = context;
  const link = { keys: (each: Cost) => [key(each.compile, each.id)] };
  const strips = Picture("Time against eager", DataTable<SamplesData>("Seconds", contestantColumns(), selection),
    selection, context.setting<Presentation>("calls", "drawing"));
  const bars = Picture("Kernel by kernel", DataTable<Cost>("Kernels and library calls", [], selection, link), selection,
    context.setting<Presentation>("kernels", "drawing"));
  const roofline = Picture("Roofline", DataTable<Cost>("Kernels against the machine's peaks", [], selection, link),
    selection, context.setting<Presentation>("roofline", "drawing"));
  const runTable = DataTable<TimedRun>("Runs", [], selection);
  const runPart = part("Runs", [], runTable.element);
  const retime = RetimeForm(() => model.record.value.created.replace("T", " ").replace(/\+00:00$/, " UTC"), {
    retime: shapes => {
      chosen.value = runs.start(shapes);
      host.live.value?.send({ type: "retime", run: chosen.value, shapes });
    },
    stop: () => host.live.value?.send({ type: "stop", run: runs.running?.id ?? "" }),
  });
  strips.element.append(methodSay);
  strips.element.insertBefore(untimed, strips.element.children[1] ?? null);
  bars.element.insertBefore(kernelsSay, bars.element.children[1] ?? null);
  bars.element.append(more, otherSizes);
  roofline.element.insertBefore(roofSay, roofline.element.children[1] ?? null);
  on(more, "click", () => {
    all = !all;
    showKernels();
  });
  const twoColumns = (...parts: readonly HTMLElement[]) => h("div.ex-two", ...parts);
  into.append(h("div.ex-pad", twoColumns(strips.element, accuracyPart), runPart, retime.element,
    twoColumns(bars.element, roofline.element)));
  const dispose = ends(
    model.record.watch(record => {
      runs.recorded(record.timing);
      showKernels();
    }),
    watchAny(soon, runs.all, chosen),
    context.abilities.watch(showRetime),
    hears(host.live, runs.take, () => {
      showRetime();
      if (!host.live.value) runs.lost();
    }),
    strips, bars, roofline, runTable,
  );
  showRun();

  function exports(): readonly Export[] {
    const name = context.model.record.value.title.replace(/\W+/g, "_");
    return [
      ...(drawn ? strips.exports(`${name}-calls`) : []),
      ...(costsOf(context.model.record.value).some(each => each.seconds !== null)
        ? bars.exports(`${name}-kernels`) : []),
      ...(roofline.element.hidden ? [] : roofline.exports(`${name}-roofline`)),
    ];
  }

  function soon(): void {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      showRun();
    });
  }

  function showRetime(): void {
    const { abilities, host } = context;
    retime.show(abilities.value, host.live.value !== null);
  }

  function shownRun(): TimedRun | undefined {
    const { value: all } = runs.all;
    return all.find(each => each.id === chosen.value) ?? all.at(-1);
  }

  function showRun(): void {
    const run = shownRun();
    const record = context.model.record.value;
    const shown = run ? contestants(run) : [];
    drawn = shown.some(each => each.samples.length > 0);
    untimed.textContent =
      run?.state === "failed" ? `This run did not finish: ${run.error}.` : drawn || run?.state === "running"
        ? "" : whyUntimed(record) + (context.abilities.value?.retime ? " Measure again, below, times it now." : "");
    untimed.hidden = untimed.textContent === "";
    strips.table.show(shown, contestantColumns(shown));
    strips.show(width => drawStrips(shown, width), drawn);
    const method = run?.timing?.method ?? record.timing?.method;
    methodSay.textContent = method && drawn ? `How it was measured: ${method}.` : "";
    retime.tell(runs.running);
    otherSizes.hidden = run === undefined || run.id === "";
    showRuns();
    showAccuracy([run?.timing?.accuracy, run?.timing?.stock_accuracy].filter(each => !!each), run);
  }

  function showRuns(): void {
    const all = runs.all.value;
    runPart.hidden = all.length < 2;
    const names = [...new Set(all.flatMap(run => contestants(run).map(each => each.name)))];
    const of = (run: TimedRun, name: string) => contestants(run).find(each => each.name === name);
    runTable.show(all, [
      {
        name: "Run", text: run => run.name,
        cell: run =>
          button("ex-choice", run.name, () => (chosen.value = run.id), { "aria-pressed": String(run === shownRun()) }),
      },
      { name: "Sizes",
        text: run => Object.entries(run.shapes).map(([name, sizes]) => `${name} ${sizes.join("×")}`).join(", ")
          || "as in the record" },
      ...names.map(
        (name): TableColumn<TimedRun> => ({ ...figure(name, run => of(run, name)?.median), title: "Median (quartiles)",
          text: run => (of(run, name) ? withQuartiles(of(run, name)!) : "") })),
      { name: "State",
        text: run => (run.state === "failed" ? run.error : run.state === "running" ? run.doing || "running" : "") },
    ]);
  }

  function contestantColumns(shown: readonly SamplesData[] = []): TableColumn<SamplesData>[] {
    const eager = shown.find(each => each.name === "eager");
    return [
      { name: "Engine", text: each => each.name, cell: each => h("strong", each.name) },
      { name: "Median (quartiles)", numeric: true, text: withQuartiles, order: each => each.median },
      {
        name: "Compared with eager",
        text: each => each.speed?.said ?? "", order: each => each.speed?.times ?? null,
      },
      figure("Peak memory", each => each.peak, bytes),
      figure("Fastest", each => (each.samples.length ? least(each.samples) : null), seconds),
      figure("Slowest", each => (each.samples.length ? most(each.samples) : null), seconds),
      figure("Samples", each => each.samples.length),
      figure("Compile time", each => each.compile_seconds, seconds),
      figure("Pays off after", each => eager && paysOffAfter(each, eager), calls => count(calls, "call")),
      { name: "Note", text: each => each.note ?? "" },
    ];
  }

  /** Of each engine that compiled. */
  function showAccuracy(found: readonly AccuracyData[], run: TimedRun | undefined): void {
    if (!found.length || (run && run.id !== "" && !run.timing?.accuracy)) {
      fill(accuracyPart);
      return;
    }
    const parts = found.map(each => h("dl.ex-facts.ex-beside", ...accuracyRows(each, found.length > 1)));
    fill(accuracyPart, h("header", h("h2", "Accuracy against eager")), ...parts);
  }

  function accuracyRows(accuracy: AccuracyData, named: boolean): readonly HTMLElement[] {
    const { largest_absolute: absolute, largest_relative: relative, where, first_parting: first, compared,
      parting: divergence } = accuracy;
    const fact = (name: string, ...value: readonly (Node | string)[]) => [h("dt", name), h("dd", ...value)];
    const rows = [
      ...(named ? fact("Engine", accuracy.engine ?? "explorer") : []),
      ...fact("Largest error",
        where ? `${writtenError(absolute)} absolute, ${writtenError(relative)} relative, in ${where}`
          : "none: every value is equal"),
      ...fact("Compared", count(compared ?? 0, "tensor"), " (outputs, gradients, inputs and state)"),
      ...fact("Within tolerance", first ? `no: ${first} is the first that is not` : "yes"),
    ];
    if (divergence && !divergence.node) {
      rows.push(...fact("Where", divergence.detail ?? "unknown",
        ...(typeof divergence.error === "number" ? [`. ${againstFloat64(divergence)}`] : [])));
    } else if (divergence) {
      const open = (pane: string, id: string) =>
        button("ex-link", id, () => context.show(pane, key(divergence.compile, id)));
      rows.push(...fact(
        "First differs at", open("graphs", divergence.node), ` in ${divergence.compile} ${divergence.half}`,
        ...(divergence.kernel ? [", written by ", open("code", divergence.kernel)] : []),
        `. ${againstFloat64(divergence)}`, divergence.detail ? ` ${divergence.detail}` : "",
      ));
    }
    return rows;
  }

  function showKernels(): void {
    const record = context.model.record.value;
    const costs = costsOf(record);
    const machine = record.timing?.machine ?? null;
    const timed = costs.filter(each => each.seconds !== null);
    const overhead = record.timing?.overhead ?? null;
    const total = timed.reduce((sum, each) => sum + (each.seconds ?? 0), 0);
    bars.element.hidden = costs.length === 0;
    kernelsSay.textContent = kernelsText(record, costs);
    bars.table.show(costs, costColumns(record, total));
    bars.show((width, linked) => drawBars({ costs, overhead, machine, all: all }, width, linked), timed.length > 0);
    more.hidden = timed.length <= 26;
    more.textContent = all ? "Show the longest only" : `Show all ${timed.length}`;
    showRoofline(record, costs);
  }

  function showRoofline(record: RecordData, costs: readonly Cost[]): void {
    const machine = record.timing?.machine;
    const points = machine ? pointsOf(costs, machine) : [];
    roofline.element.hidden = !machine || points.length === 0;
    if (!machine || points.length === 0) return;
    const moving = costs.filter(each => each.kind === "kernel" && each.flops === 0 && each.seconds !== null).length;
    const above = points.filter(each => each.at.share > 1).length;
    const sentences = [
      `Roof: bandwidth of a large copy and FLOP/s of a float32 matrix product, measured on ${machine.name}.`,
      moving
        ? `${count(moving, "kernel only moves bytes and has", "kernels only move bytes and have")} no place here.` : "",
      costs.some(each => each.kind === "call")
        ? "Library calls are not shown: their memory traffic is not counted." : "",
      above
        ? `${count(above, "kernel lies", "kernels lie")} above the roof: what ${above === 1 ? "it reads" : "they "
          + "read"} was probably in a cache, which is faster than memory.` : "",
      points.length === MOST_POINTS ? `Only the slowest ${MOST_POINTS} kernels are drawn.` : "",
    ];
    roofSay.textContent = phrase(sentences, " ");
    roofline.table.show(costs.filter(each => each.kind === "kernel" && performance(each, machine) !== null),
      costColumns(record, 0).filter(each => each.name !== "Share"));
    roofline.show((width, linked) => drawRoofline(costs, machine, width, linked));
  }

  function costColumns(record: RecordData, total: number): TableColumn<Cost>[] {
    const machine = record.timing?.machine;
    const found = (each: Cost) => (machine && usable(machine) ? performance(each, machine) : null);
    const several = new Set(record.compiles.flatMap(each => each.halves?.map(half => half.name) ?? [])).size > 1;
    const columns: TableColumn<Cost>[] = [
      codes("Kernel", each => each.id),
      { name: "Compile", text: each => `${each.compile} ${each.half}`.trim(),
        order: each => `${each.compile} ${each.half}` },
      { name: "Operations", text: each => each.runs },
      { name: "Time", numeric: true, text: each => (each.seconds === null ? "not timed" : seconds(each.seconds)),
        order: each => each.seconds },
      figure("Share", each => (each.seconds === null || total === 0 ? null : each.seconds / total), percent),
      figure("Bytes moved", each => each.bytes, bytes),
      figure("Bandwidth", each => rate(each.bytes, each.seconds), value => scaled(value, "B/s")),
      figure("FLOP", each => each.flops, value => scaled(value, "FLOP")),
      figure("Rate", each => rate(each.flops, each.seconds), value => scaled(value, "FLOP/s")),
      { name: "Of peak", numeric: true,
        text: each => (found(each) ? `${percent(found(each)?.share ?? 0)} of ${found(each)?.bound}` : ""),
        order: each => found(each)?.share ?? null },
    ];
    return columns.filter(each => several || each.name !== "Compile");
  }

  return { reveal, exports, dispose };
}

function kernelsText(record: RecordData, costs: readonly Cost[]): string {
  const timed = costs.filter(each => each.seconds !== null);
  if (timed.length === 0) {
    const elsewhere = record.compiles.some(each => each.halves?.some(half => half.runs === false));
    return `Kernels were not timed${elsewhere ? ": they are for another machine" : ""}. Bytes moved and operations of `
      + `each:`;
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
    return `Not timed: the code is for ${record.target}, which was not there.`;
  }
  if (record.calls?.length)
    return "A watched program is not compared with eager in speed: Breaks lists its calls and their times.";
  if (record.error) return `It was not timed: ${record.error}`;
  return "Not timed: explored with time=False (--no-time), or timing has not begun.";
}

/** How far both are from the referee: the graph in float64, or eager where an operator has no such form. */
function againstFloat64({ error, eager_error: eager }: DivergenceData): string {
  const ours = error === null ? "not finite, or of another shape" : `off by ${writtenError(error)}`;
  return eager === null || eager === undefined
    ? `It is ${ours}, compared with eager.` : `Against float64 it is ${ours}, eager off by ${writtenError(eager)}.`;
}
