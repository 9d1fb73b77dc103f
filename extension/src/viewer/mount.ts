// Puts a viewer into an element of a page, and marks the line that is stepped through in a notebook: the door that the
// adapters of src/lab and src/report use.

import { DiffShell } from "./diff/view";
import { fill, h, styled } from "./dom";
import { explainColumns } from "./help";
import type { Host } from "./host";
import { MethodsData, VERSION as METHODS_VERSION } from "./methods/data";
import { MethodsShell } from "./methods/shell";
import { Model } from "./model";
import { PANES } from "./panes";
import { RanksData, VERSION as RANKS_VERSION } from "./ranks/data";
import { RanksShell } from "./ranks/shell";
import { fitting, readRecord } from "./read";
import type { RecordData } from "./record";
import { Shell } from "./shell";
import style from "./style/index.css?viewer";
import { COLORS } from "./palette";
import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView } from "@codemirror/view";

export interface Mounted {
  dispose(): void;
}

export interface Viewer extends Mounted {
  /** The record, as far as it can be shown; null where it cannot. */
  readonly record: RecordData | null;
  /** Shows another state of the record, with what is open and selected kept. */
  update(record: unknown): void;
  /** Opens the pane of this id; nothing where there is none. */
  show(pane: string): void;
  /** Opens an address (Shell.address); false where it is not one of this record. */
  open(address: string): boolean;
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
      fill(root);
    },
    show: pane => shown?.shell.show(pane, null),
    open: address => shown?.shell.open(address) ?? false,
  };
}

/** Shows two records stage by stage. */
export function mountDiff(root: HTMLElement, before: unknown, after: unknown, host: Host): Mounted {
  return mounted(root, host, () => [readRecord(before), readRecord(after)] as const,
    records => DiffShell(root, ...records, host));
}

/** Shows whatever something is: capture methods beside each other, the records of the ranks of one job, or a record. */
export function mountAny(root: HTMLElement, value: unknown, host: Host): Mounted {
  const has = (field: string) => typeof value === "object" && value !== null && field in value;
  if (has("methods"))
    return mounted(root, host, () => fitting<MethodsData>(value, "comparison", "methods", METHODS_VERSION, MethodsData),
      ([data, damage]) => MethodsShell(root, data, host, damage));
  if (has("ranks"))
    return mounted(root, host, () => fitting<RanksData>(value, "job", "ranks", RANKS_VERSION, RanksData),
      ([data, damage]) => RanksShell(root, data, host, damage));
  return mount(root, value, host);
}

function mounted<T>(root: HTMLElement, host: Host, read: () => T, show: (data: T) => Mounted): Mounted {
  prepared(root, host);
  const data = tried(read);
  const shell = data instanceof Error ? refuse(root, data) : show(data);
  return {
    dispose() {
      shell?.dispose();
      fill(root);
    },
  };
}

function tried<T>(read: () => T): T | Error {
  try {
    return read();
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

const read = (value: unknown): RecordData | Error => tried(() => readRecord(value));

function opened(root: HTMLElement, record: RecordData | Error, host: Host): { model: Model; shell: Shell } | null {
  prepared(root, host);
  if (record instanceof Error) {
    refuse(root, record);
    return null;
  }
  const model = new Model(record);
  return { model, shell: Shell(root, model, host, PANES) };
}

function prepared(root: HTMLElement, { page }: Host): void {
  styled(style);
  // A class for each color, as palette.ts names it.
  styled(
    Array.from({ length: COLORS }, (_, n) => `.ex-root .ex-line-${n} { --ex-line: var(--ex-line-${n}); }`).join(""));
  root.classList.add("ex-root");
  explainColumns(root, page);
  // A click anywhere in it makes its keys work.
  root.tabIndex = -1;
}

function refuse(root: HTMLElement, problem: Error): undefined {
  fill(root, h("div.ex-empty", { role: "note" }, h("h1", "This record cannot be shown"), h("p", problem.message)));
}

/** To where a line begins; -1 for none. */
const moved = StateEffect.define<number>();

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(old, { docChanged, effects }) {
    const at = effects.find(each => each.is(moved))?.value as number | undefined;
    if (at === undefined) return docChanged ? Decoration.none : old;
    return at < 0 ? Decoration.none : Decoration.set(Decoration.line({ class: "ex-stepped" }).range(at));
  },
  provide: field => EditorView.decorations.from(field),
});

/** Marks a line of the cell that was the `cell`th to run ("[3]:"), if it still reads so, and no other. */
export function markLine(notebook: ParentNode, cell: string, line: number, text: string): void {
  for (const area of notebook.querySelectorAll(".jp-InputArea")) {
    const editor = EditorView.findFromDOM(area as HTMLElement);
    if (!editor) continue;
    const { doc } = editor.state;
    const here = area.querySelector(".jp-InputPrompt")?.textContent === cell && line > 0 && line <= doc.lines
      && doc.line(line).text === text;
    if (!here && !editor.state.field(marks, false)) continue;
    if (!editor.state.field(marks, false)) editor.dispatch({ effects: StateEffect.appendConfig.of(marks) });
    editor.dispatch({ effects: moved.of(here ? doc.line(line).from : -1) });
  }
}
