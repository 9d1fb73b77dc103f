// What a live kernel says, taken into the model; and what goes on there now.

import type { Live } from "./host";
import type { Model } from "./model";
import type { Abilities, Done, StageDone, ToPage } from "./protocol";
import { type Dispose, type Readable, Signal } from "./signal";

/** Milliseconds between two updates of the page: stages can end faster than a large record can be shown. */
const GAP = 100;

/** What the kernel is at, since when (`performance.now()`). */
export interface Activity {
  readonly compile: string;
  readonly stage: string;
  readonly what: string;
  readonly since: number;
}

export function KernelUpdates(model: Model, live: Readable<Live | null>, now: () => number = () => performance.now()) {
  const activity = new Signal<Activity | null>(null);
  /** How what was asked for last ended, where it ended badly. */
  const ended = new Signal<Done | null>(null);
  const abilities = new Signal<Abilities | null>(null);
  /** Stages that ended and are not shown yet. */
  let waiting: StageDone[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let shownAt = Number.NEGATIVE_INFINITY;
  let leave: Dispose = () => undefined;
  const unwatch = live.watch(connected => {
    leave();
    leave = () => undefined;
    activity.value = null;
    abilities.value = null;
    if (!connected) return;
    leave = connected.listen(message => take(message));
    connected.send({ type: "hello" });
  });
  const end = () => {
    unwatch();
    leave();
    clearTimeout(timer);
  };

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.length === 0) return;
    shownAt = now();
    model.addStages(waiting);
    waiting = [];
  }

  function take(message: ToPage): void {
    if (message.type !== "stage" && message.type !== "running") flush();
    switch (message.type) {
      case "record":
        model.record.value = message.record;
        break;
      case "stage":
        waiting.push(message);
        if (now() - shownAt >= GAP) flush();
        else timer ??= setTimeout(() => flush(), GAP);
        break;
      case "timed":
        // A run with other sizes is shown beside the record's own, and does not take its place.
        if (message.run === "") model.addTiming(message.timing);
        break;
      case "running":
        ended.value = null;
        activity.value = {
          compile: message.compile, stage: message.stage, what: message.what ?? "", since: now(),
        };
        break;
      case "done":
        activity.value = null;
        ended.value = message.error && !message.run?.startsWith("edit") ? message : null;
        break;
      case "abilities":
        abilities.value = message;
        break;
      case "samples":
      case "edited":
      case "kept":
        break; // The timing pane, edits.ts and the one who saves listen for themselves.
    }
  }

  return { activity, ended, abilities, end };
}

export type KernelUpdates = ReturnType<typeof KernelUpdates>;
