// What is changed of the program, and what the kernel makes of it: the record of the changed program takes the place of
// the one that was explored, in all panes.

import type { Live } from "./host";
import type { Model } from "./model";
import type { Edit, ToPage } from "./protocol";
import type { RecordData } from "./record";
import { type Dispose, type Readable, Signal } from "./signal";

/** Milliseconds without a key after which the kernel compiles what was typed. */
const PAUSE = 250;

export type Changes = Omit<Edit, "type" | "run" | "time">;

export class Edits {
  /** Since the program was explored. */
  readonly changes = new Signal<Changes>({});
  /** What came of the last change: what is other than before, or (failed) why it could not be compiled. */
  readonly said = new Signal<{ readonly text: string; readonly failed?: boolean }>({ text: "" });
  /** The record of the program as it was explored, while that of a change is shown. */
  readonly before = new Signal<RecordData | null>(null);
  readonly end: Dispose;
  #run = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #model: Model;
  readonly #live: Readable<Live | null>;

  constructor(model: Model, live: Readable<Live | null>) {
    this.#model = model;
    this.#live = live;
    let leave: Dispose = () => undefined;
    const unwatch = live.watch(connected => {
      leave();
      leave = connected?.listen(message => this.#take(message)) ?? (() => undefined);
    });
    this.end = () => {
      unwatch();
      leave();
      clearTimeout(this.#timer);
    };
  }

  change(changes: Changes): void {
    this.changes.value = { ...this.changes.value, ...changes };
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.send(), PAUSE);
  }

  /** Has the changes compiled and, with `time`, the changed program run. */
  send(time = false): void {
    clearTimeout(this.#timer);
    this.#run = `edit ${Math.random()}`;
    this.said.value = { text: time ? "Running…" : "Compiling…" };
    this.#live.value?.send({ type: "edit", run: this.#run, ...this.changes.value, time });
  }

  undo(): void {
    this.changes.value = {};
    this.send();
  }

  #take(message: ToPage): void {
    if (message.type === "record") this.before.value = null;
    else if (message.type === "edited") {
      this.before.value ??= this.#model.record.value;
      this.#model.record.value = message.record;
      if (message.run === this.#run) this.said.value = { text: message.changes.join("\n") || "Compiled: the summary is the same." };
    } else if (message.type === "done" && message.run === this.#run) {
      if (message.error) this.said.value = { text: message.error, failed: true };
      else if (!this.before.value) this.said.value = { text: "" };
    }
  }
}
