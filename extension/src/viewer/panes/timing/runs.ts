// Timing runs: the record's own, and those with other sizes that a live kernel made since.

import type { ToPage } from "../../protocol";
import type { SamplesData, TimingData } from "../../record";
import { Signal } from "../../signal";
import { quartiles } from "./figures";

export type Shapes = { readonly [argument: string]: readonly number[] };

export interface TimedRun {
  /** "" is the record's own. */
  readonly id: string;
  /** What it is called on the page. */
  readonly name: string;
  readonly shapes: Shapes;
  readonly samples: ReadonlyMap<string, readonly number[]>;
  /** All of it, once it has ended well. */
  readonly timing: TimingData | null;
  readonly state: "running" | "ended" | "failed";
  readonly doing: string;
  readonly error: string;
}

export function Runs() {
  const all = new Signal<readonly TimedRun[]>([]);
  let asked = 0;
  const running = (): TimedRun | undefined => [...all.value].reverse().find(each => each.state === "running");
  const find = (id: string): TimedRun | undefined => all.value.find(each => each.id === id);

  /** The record's own timing: what was measured when it was made. */
  function recorded(timing: TimingData | null | undefined): void {
    const own = find("");
    if (timing && own?.timing !== timing) put({ ...blank("", {}), timing, state: "ended" });
    else if (!timing && own?.timing) all.value = all.value.filter(each => each.id !== "");
  }

  /** A run with other sizes was asked for. Gives its id, which no other page on the same kernel has. */
  function start(shapes: Shapes): string {
    const name = `run ${++asked}`;
    const id = `${name} ${Math.random().toString(36).slice(2)}`;
    put({ ...blank(id, shapes, name), doing: "asked for" });
    return id;
  }

  function take(message: ToPage): void {
    switch (message.type) {
      case "samples": {
        const run = find(message.run) ?? (message.run === "" ? blank("", {}) : undefined);
        if (!run || run.timing) return;
        const samples = new Map(run.samples);
        samples.set(message.name, [...(samples.get(message.name) ?? []), ...message.seconds]);
        put({ ...run, samples, state: "running" });
        break;
      }
      case "timed": {
        const run = find(message.run) ?? (message.run === "" ? blank("", {}) : undefined);
        if (run) put({ ...run, timing: message.timing, state: "ended", doing: "" });
        break;
      }
      case "running": {
        const run = running();
        if (run) put({ ...run, doing: message.what || message.stage });
        break;
      }
      case "done": {
        const run = message.run ? find(message.run) : running();
        if (!run || run.state !== "running") return;
        put({ ...run, state: message.error || !run.timing ? "failed" : "ended",
          error: message.error || "it ended without a result", doing: "" });
        break;
      }
    }
  }

  /** The kernel went away: what was under way will not end. */
  function lost(): void {
    for (const run of all.value) if (run.state === "running")
      put({ ...run, state: "failed", error: "the kernel has stopped", doing: "" });
  }

  function put(run: TimedRun): void {
    const there = all.value.some(each => each.id === run.id);
    all.value = there ? all.value.map(each => (each.id === run.id ? run : each)) : [...all.value, run];
  }

  return { all, recorded, start, take, lost, find, get running() { return running(); } };
}

function blank(id: string, shapes: Shapes, name = "the record's"): TimedRun {
  return { id, name, shapes, samples: new Map(), timing: null, state: "running", doing: "", error: "" };
}

/** Each contestant of a run, finished or under way. */
export function contestants(run: TimedRun): SamplesData[] {
  if (run.timing) return [...run.timing.contestants];
  return [...run.samples].map(([name, samples]) => {
    const [low, median, high] = quartiles(samples);
    return { name, samples, median, spread: high - low };
  });
}
