// The record that a viewer shows, which may still be growing.

import { Links } from "./links";
import { Palette } from "./palette";
import type { StageDone } from "./protocol";
import type { CompileData, RecordData, TimingData } from "./record";
import { Derived, Signal, type Readable } from "./signal";
import { FileNames } from "./sources";

export class Model {
  readonly record: Signal<RecordData>;
  readonly links: Readable<Links>;
  readonly files: Readable<FileNames>;
  /** The color of each source line and of what it caused. */
  readonly palette: Readable<Palette>;

  constructor(record: RecordData) {
    this.record = new Signal(record);
    let links: Links | undefined;
    this.links = new Derived([this.record], () => (links = new Links(this.record.value, links)));
    this.files = new Derived([this.record], () => FileNames(this.record.value.sources));
    this.palette = new Derived([this.links], () => Palette(this.links.value));
  }

  compile(id: string): CompileData | undefined {
    return this.record.value.compiles.find(each => each.id === id);
  }

  /** Takes in stages that have just ended. */
  addStages(done: readonly StageDone[]): void {
    this.record.value = done.reduce(withStage, this.record.value);
  }

  addTiming(timing: TimingData): void {
    this.record.value = { ...this.record.value, timing };
  }
}

function withStage(record: RecordData, { compile, stage, glance = record.glance }: StageDone): RecordData {
  const old = record.compiles.find(each => each.id === compile.id);
  const stages = [...(old?.stages ?? []).filter(each => each.id !== stage.id), stage];
  const next = { ...(old ?? compile), stages };
  const compiles = old ? record.compiles.map(each => (each === old ? next : each)) : [...record.compiles, next];
  return { ...record, compiles, ...(glance && { glance }) };
}
