// Puts a viewer into an element of a page: the door that the adapters of src/lab and src/report use.

import { DiffShell } from "./diff/shell";
import { h } from "./dom";
import type { Host } from "./host";
import { Model } from "./model";
import { PANES } from "./panes";
import type { RecordData } from "./record";
import { Shell } from "./shell";
import { unreadable } from "./unreadable";

export interface Viewer {
  /** Shows another state of the record, with what is open and selected kept. */
  update(record: RecordData): void;
  dispose(): void;
  /** Opens the pane of this id; nothing where there is none. */
  show(pane: string): void;
}

/** Shows a record in `root`, which is as high as the page makes it (class "ex-fill": as high as what holds it). */
export function mount(root: HTMLElement, record: RecordData, host: Host): Viewer {
  let shown = opened(root, record, host);
  return {
    update(next) {
      if (shown && !unreadable(next)) shown.model.record.value = next;
      else {
        shown?.shell.dispose();
        shown = opened(root, next, host);
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
export function mountDiff(root: HTMLElement, before: RecordData, after: RecordData, host: Host): { dispose(): void } {
  prepared(root);
  const problem = unreadable(before) ?? unreadable(after);
  if (problem) refuse(root, problem);
  const shell = problem ? null : new DiffShell(root, before, after, host);
  return {
    dispose() {
      shell?.dispose();
      root.replaceChildren();
    },
  };
}

function opened(root: HTMLElement, record: RecordData, host: Host): { model: Model; shell: Shell } | null {
  prepared(root);
  const problem = unreadable(record);
  if (problem) {
    refuse(root, problem);
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

function refuse(root: HTMLElement, problem: string): void {
  root.replaceChildren(h("div", { class: "ex-empty", role: "note" }, h("h1", {}, "This record cannot be shown"), h("p", {}, problem)));
}
