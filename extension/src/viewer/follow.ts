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

export class Follower {
  readonly activity = new Signal<Activity | null>(null);
  /** How what was asked for last ended, where it ended badly. */
  readonly ended = new Signal<Done | null>(null);
  readonly abilities = new Signal<Abilities | null>(null);
  readonly end: Dispose;
  /** Stages that ended and are not shown yet. */
  #waiting: StageDone[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #shownAt = Number.NEGATIVE_INFINITY;
  readonly #model: Model;
  readonly #now: () => number;

  constructor(model: Model, live: Readable<Live | null>, now: () => number = () => performance.now()) {
    this.#model = model;
    this.#now = now;
    let leave: Dispose = () => undefined;
    const unwatch = live.watch(connected => {
      leave();
      leave = () => undefined;
      this.activity.value = null;
      this.abilities.value = null;
      if (!connected) return;
      leave = connected.listen(message => this.#take(message));
      connected.send({ type: "hello" });
    });
    this.end = () => {
      unwatch();
      leave();
      clearTimeout(this.#timer);
    };
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#waiting.length === 0) return;
    this.#shownAt = this.#now();
    this.#model.addStages(this.#waiting);
    this.#waiting = [];
  }

  #take(message: ToPage): void {
    if (message.type !== "stage" && message.type !== "running") this.#flush();
    switch (message.type) {
      case "record":
        this.#model.record.value = message.record;
        break;
      case "stage":
        this.#waiting.push(message);
        if (this.#now() - this.#shownAt >= GAP) this.#flush();
        else this.#timer ??= setTimeout(() => this.#flush(), GAP);
        break;
      case "timed":
        // A run with other sizes is shown beside the record's own, and does not take its place.
        if (message.run === "") this.#model.addTiming(message.timing);
        break;
      case "running":
        this.ended.value = null;
        this.activity.value = {
          compile: message.compile, stage: message.stage, what: message.what ?? "", since: this.#now(),
        };
        break;
      case "done":
        this.activity.value = null;
        this.ended.value = message.error && !message.run?.startsWith("edit") ? message : null;
        break;
      case "abilities":
        this.abilities.value = message;
        break;
      case "samples":
      case "edited":
      case "kept":
        break; // The timing pane, edits.ts and the one who saves listen for themselves.
    }
  }
}
