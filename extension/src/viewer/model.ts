// The record that a viewer shows, which may still be growing.

import { Links } from "./links";
import { Palette } from "./palette";
import type { StageDone } from "./protocol";
import type { CompileData, RecordData, TimingData } from "./record";
import { Derived, Signal, type Readable } from "./signal";

export class Model {
  readonly record: Signal<RecordData>;
  readonly links: Readable<Links>;
  /** The colour of each source line and of what it caused. */
  readonly palette: Readable<Palette>;

  constructor(record: RecordData) {
    this.record = new Signal(record);
    this.links = new Derived([this.record], () => new Links(this.record.value));
    this.palette = new Derived([this.links], () => new Palette(this.links.value));
  }

  compile(id: string): CompileData | undefined {
    return this.record.value.compiles.find(each => each.id === id);
  }

  /** Takes in a stage that has just ended. */
  addStage({ compile, stage }: StageDone): void {
    const record = this.record.value;
    const old = this.compile(compile.id);
    const stages = [...(old?.stages ?? []).filter(each => each.id !== stage.id), stage];
    const next = { ...(old ?? compile), stages };
    const compiles = old ? record.compiles.map(each => (each === old ? next : each)) : [...record.compiles, next];
    this.record.value = { ...record, compiles };
  }

  addTiming(timing: TimingData): void {
    this.record.value = { ...this.record.value, timing };
  }
}
