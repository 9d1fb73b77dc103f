// Puts a viewer into an element of a page: the one door that the adapters of src/lab and src/report use.

import { h } from "./dom";
import type { Host } from "./host";
import { Model } from "./model";
import { PANES } from "./panes";
import type { RecordData } from "./record";
import { Shell } from "./shell";

/** The version of the record that this viewer reads (VERSION in explorer/ir/record.py). */
export const VERSION = 1;

export interface Viewer {
  /** Shows another state of the record, with what is open and selected kept. */
  update(record: RecordData): void;
  dispose(): void;
  /** Opens the pane of this id; nothing where there is none. */
  show(pane: string): void;
}

/** Shows a record in `root`, which is as high as the page makes it (class "ex-fill": as high as what holds it). */
export function mount(root: HTMLElement, record: RecordData, host: Host): Viewer {
  root.classList.add("ex-root");
  // JupyterLab's and Notebook's own shortcuts do not act on keys that are meant for the viewer.
  root.dataset.lmSuppressShortcuts = "true";
  const problem = unreadable(record);
  if (problem) {
    root.replaceChildren(h("div", { class: "ex-empty", role: "note" }, h("h1", {}, "This record cannot be shown"), h("p", {}, problem)));
    return { update: next => mount(root, next, host), dispose: () => root.replaceChildren(), show: () => undefined };
  }
  const model = new Model(record);
  const shell = new Shell(root, model, host, PANES);
  return {
    update: next => (model.record.value = next),
    dispose: () => shell.dispose(),
    show: pane => shell.show(pane, null),
  };
}

/** Why something is not a record that this viewer can show; null where it is one. */
export function unreadable(record: unknown): string | null {
  if (record === null || typeof record !== "object" || !("version" in record) || !("compiles" in record)) {
    return "It is not a record of torch-explorer: it has no version or no compiles.";
  }
  if (typeof record.version !== "number" || !Array.isArray(record.compiles)) return "It is damaged: its version or its compiles are of the wrong kind.";
  if (record.version > VERSION) return `It was made by a newer torch-explorer (record version ${record.version}; this viewer reads up to ${VERSION}). Update torch-explorer to open it.`;
  return null;
}
