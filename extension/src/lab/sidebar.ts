// The records in a notebook's outputs, rendered or not, and the sidebar that lists those of the notebook in front: a
// click goes to one.

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { Debouncer } from "@lumino/polling";
import { Widget } from "@lumino/widgets";
import { aria, fill, h, styled } from "../viewer/dom";
import { count, phrase, seconds } from "../viewer/format";
import { TimingData, MIME } from "../viewer/record";
import { icon } from "./icon";
import style from "./lab.css";
import type { CodeCell } from "@jupyterlab/cells";

const SETTLED_MS = 250;

export class Sidebar extends Widget {
  readonly #list = h("ul", { "aria-label": "Records in this notebook" });
  readonly #said = h("p");
  readonly #refresh = new Debouncer(() => this.#fill(), SETTLED_MS);
  #panel: NotebookPanel | null = null;
  readonly #tracker: INotebookTracker;

  constructor(tracker: INotebookTracker) {
    super();
    this.#tracker = tracker;
    this.id = "torch-explorer-records";
    this.title.icon = icon;
    this.title.caption = "Records of torch-explorer";
    styled(style);
    this.addClass("ex-lab-records");
    this.node.append(h("h2", "Records"), this.#said, this.#list);
    tracker.currentChanged.connect(this.#follow, this);
    tracker.activeCellChanged.connect(this.#mark, this);
    this.#follow();
  }

  override dispose(): void {
    this.#refresh.dispose();
    super.dispose();
  }

  #follow(): void {
    this.#panel?.content.modelContentChanged.disconnect(this.#changed, this);
    this.#panel = this.#tracker.currentWidget;
    this.#panel?.content.modelContentChanged.connect(this.#changed, this);
    this.#fill();
  }

  #changed(): void {
    void this.#refresh.invoke();
  }

  #fill(): void {
    if (this.isDisposed) return;
    const panel = this.#panel?.isDisposed ? null : this.#panel;
    const found = panel ? recordsOf(panel) : [];
    this.#said.hidden = found.length > 0;
    this.#said.textContent = panel
      ? "No record in this notebook yet. Run a cell that begins with %%explore."
      : "Open a notebook to see its records here.";
    fill(this.#list, ...found.map(each => this.#entry(each)));
    this.#mark();
  }

  #entry(found: Found): HTMLElement {
    const { record } = found;
    const go = () => this.#goTo(found);
    const button = h(
      "button", { type: "button", onclick: go, "data-cell": found.index, title: record.title },
      h("span.ex-lab-cell", `[${found.count ?? " "}]`),
      h("span.ex-lab-title", record.title || "(no title)"),
      h("span.ex-lab-facts", facts(record)),
    );
    return h("li", button);
  }

  #goTo(found: Found): void {
    const notebook = this.#panel?.content;
    if (!notebook) return;
    notebook.activeCellIndex = found.index;
    const view = found.cell.outputArea.node.querySelector(".ex-lab");
    if (view) view.scrollIntoView({ block: "start" });
    else void notebook.scrollToCell(found.cell, "start");
  }

  #mark(): void {
    const active = this.#panel?.isDisposed === false ? this.#panel.content.activeCellIndex : -1;
    for (const button of this.#list.querySelectorAll<HTMLElement>("button")) {
      aria(button, "current", button.dataset["cell"] === String(active));
    }
  }
}

/** The engine, what was compiled, and how long a call takes. */
function facts({ engine, compiles, timing, error }: Titled): string {
  const measured = TimingData(timing, []) as TimingData | undefined;
  const ours = measured?.contestants.find(each => each.name === engine);
  return phrase([
    typeof engine === "string" ? engine : "", Array.isArray(compiles) ? count(compiles.length, "compile") : "",
    ours ? `${seconds(ours.median)} a call` : "", error ? "failed" : "",
  ], " · ");
}

interface Found {
  readonly cell: CodeCell;
  /** Position of the cell in the notebook. */
  readonly index: number;
  /** The execution count that the notebook shows; null where the cell has not run here. */
  readonly count: number | null;
  /** As it stands in the output: its title is text, and the rest may be anything. */
  readonly record: Titled;
}

interface Titled {
  readonly title: string;
  readonly [field: string]: unknown;
}

export function recordsOf(panel: NotebookPanel): Found[] {
  return panel.content.widgets.flatMap((widget, index) => {
    if (widget.model.type !== "code") return [];
    const cell = widget as CodeCell;
    const count = cell.model.executionCount;
    return outputsOf(cell).map(record => ({ cell, index, count, record }));
  });
}

/** What tells a record from others, also from a copy that grew or was cut: those of one second began at different
 * moments. */
export function stamp({ title, created, compiles }: { readonly [field: string]: unknown }): string {
  const first: unknown = Array.isArray(compiles) ? compiles[0] : null;
  return JSON.stringify(
    [title, created, typeof first === "object" && first !== null && "started" in first ? first.started : null]);
}

function outputsOf(cell: CodeCell): Titled[] {
  const outputs = cell.model.outputs;
  const data: unknown[] = Array.from({ length: outputs.length }, (_, n) => outputs.get(n).data[MIME]);
  return data.filter(isTitled);
}

function isTitled(data: unknown): data is Titled {
  return typeof data === "object" && data !== null && "title" in data && typeof data.title === "string";
}
