// What a live kernel says, taken into the model, and what goes on there now; what is changed of the program, and what
// the kernel makes of that: its record takes the place of the one that was explored, in all panes.

import { hears, type Live } from "./host";
import type { Model } from "./model";
import type { Abilities, Done, StageDone, ToPage, Edit } from "./protocol";
import { ends, type Readable, Signal } from "./signal";
import type { RecordData } from "./record";

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
  const end = ends(
    hears(live, take, () => (activity.value = abilities.value = null)),
    live.watch(connected => connected?.send({ type: "hello" })), () => clearTimeout(timer),
  );

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

/** Milliseconds without a key after which the kernel compiles what was typed. */
const PAUSE = 150;

type EditChanges = Omit<Edit, "type" | "run" | "time">;

export function Edits(model: Model, live: Readable<Live | null>) {
  /** Since the program was explored. */
  const changes = new Signal<EditChanges>({});
  /** What came of the last change: what is other than before, or (failed) why it could not be compiled. */
  const note = new Signal<{ readonly text: string; readonly failed?: boolean }>({ text: "" });
  /** The record of the program as it was explored, while that of a change is shown. */
  const before = new Signal<RecordData | null>(null);
  let run = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = ends(hears(live, take, () => undefined), () => clearTimeout(timer));

  function change(more: EditChanges): void {
    changes.value = { ...changes.value, ...more };
    clearTimeout(timer);
    timer = setTimeout(() => send(), PAUSE);
  }

  /** Has the changes compiled and, with `time`, the changed program run. */
  function send(time = false): void {
    clearTimeout(timer);
    run = `edit ${Math.random()}`;
    note.value = { text: time ? "Running…" : "Compiling…" };
    live.value?.send({ type: "edit", run: run, ...changes.value, time });
  }

  function undo(): void {
    changes.value = {};
    send();
  }

  function take(message: ToPage): void {
    if (message.type === "record") before.value = null;
    else if (message.type === "edited") {
      before.value ??= model.record.value;
      model.record.value = message.record;
      if (message.run === run)
        note.value = { text: message.changes.join("\n") || "Compiled: the summary is the same." };
    } else if (message.type === "done" && message.run === run) {
      if (message.error) note.value = { text: message.error, failed: true };
      else if (!before.value) note.value = { text: "" };
    }
  }

  return { changes, note, before, end, change, send, undo };
}

export type Edits = ReturnType<typeof Edits>;
