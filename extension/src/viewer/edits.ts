// What is changed of the program, and what the kernel makes of it: the record of the changed program takes the place of
// the one that was explored, in all panes.

import type { Live } from "./host";
import type { Model } from "./model";
import type { Edit, ToPage } from "./protocol";
import type { RecordData } from "./record";
import { type Dispose, type Readable, Signal } from "./signal";

/** Milliseconds without a key after which the kernel compiles what was typed. */
const PAUSE = 150;

export type EditChanges = Omit<Edit, "type" | "run" | "time">;

export function Edits(model: Model, live: Readable<Live | null>) {
  /** Since the program was explored. */
  const changes = new Signal<EditChanges>({});
  /** What came of the last change: what is other than before, or (failed) why it could not be compiled. */
  const note = new Signal<{ readonly text: string; readonly failed?: boolean }>({ text: "" });
  /** The record of the program as it was explored, while that of a change is shown. */
  const before = new Signal<RecordData | null>(null);
  let run = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  let leave: Dispose = () => undefined;
  const unwatch = live.watch(connected => {
    leave();
    leave = connected?.listen(message => take(message)) ?? (() => undefined);
  });
  const end = () => {
    unwatch();
    leave();
    clearTimeout(timer);
  };

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
