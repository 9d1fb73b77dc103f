// Puts a viewer into an element of a page: the door that the adapters of src/lab and src/report use.

import { DiffShell } from "./diff/shell";
import { h } from "./dom";
import type { Host } from "./host";
import { Model } from "./model";
import { PANES } from "./panes";
import { readRecord } from "./read";
import type { RecordData } from "./record";
import { Shell } from "./shell";

export interface Viewer {
  /** The record, as far as it can be shown; null where it cannot. */
  readonly record: RecordData | null;
  /** Shows another state of the record, with what is open and selected kept. */
  update(record: unknown): void;
  dispose(): void;
  /** Opens the pane of this id; nothing where there is none. */
  show(pane: string): void;
}

/** Shows a record in `root`, which is as high as the page makes it (class "ex-fill": as high as what holds it). What is
 * no record, or is damaged, is told of in its place. */
export function mount(root: HTMLElement, record: unknown, host: Host): Viewer {
  let shown = opened(root, read(record), host);
  return {
    get record() {
      return shown?.model.record.value ?? null;
    },
    update(next) {
      const record = read(next);
      if (shown && !(record instanceof Error)) shown.model.record.value = record;
      else {
        shown?.shell.dispose();
        shown = opened(root, record, host);
      }
    },
    dispose() {
      shown?.shell.dispose();
      root.replaceChildren();
    },
    show: pane => shown?.shell.show(pane, null),
  };
}

/** Shows two records stage by stage. */
export function mountDiff(root: HTMLElement, before: unknown, after: unknown, host: Host): { dispose(): void } {
  prepared(root);
  const [old, fresh] = [read(before), read(after)];
  const problem = old instanceof Error ? old : fresh;
  if (problem instanceof Error) refuse(root, problem);
  const shell = old instanceof Error || fresh instanceof Error ? null : new DiffShell(root, old, fresh, host);
  return {
    dispose() {
      shell?.dispose();
      root.replaceChildren();
    },
  };
}

function read(value: unknown): RecordData | Error {
  try {
    return readRecord(value);
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

function opened(root: HTMLElement, record: RecordData | Error, host: Host): { model: Model; shell: Shell } | null {
  prepared(root);
  if (record instanceof Error) {
    refuse(root, record);
    return null;
  }
  const model = new Model(record);
  return { model, shell: new Shell(root, model, host, PANES) };
}

function prepared(root: HTMLElement): void {
  root.classList.add("ex-root");
  // A click anywhere in it makes its keys work.
  root.tabIndex = -1;
}

function refuse(root: HTMLElement, problem: Error): void {
  root.replaceChildren(h("div", { class: "ex-empty", role: "note" }, h("h1", {}, "This record cannot be shown"), h("p", {}, problem.message)));
}
