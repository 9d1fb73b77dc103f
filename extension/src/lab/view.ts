// What the viewer shows, in a Lumino widget: in an output of a notebook, in a tab of its own, or among ipywidgets.

import { PageConfig, URLExt } from "@jupyterlab/coreutils";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { download, filled } from "../page/files";
import { Memory } from "../page/memory";
import { fill, h, styled, aria, on } from "../viewer/dom";
import type { Host, Live } from "../viewer/host";
import type { Mounted, Viewer } from "../viewer/mount";
import type { RecordData } from "../viewer/record";
import { type Dispose, type Readable, Signal } from "../viewer/signal";
import style from "./lab.css";
import { preferences, preferredLayout, dark } from "./preferences";

/** JupyterLab takes it off the address later. */
const ASKED = location.hash;

/** Asks the notebook that an element is in for a new cell below its own; `detail` is the text. */
export const NEW_CELL = "torch-explorer:new-cell";

const TEMPLATE = "torch-explorer/static/report.html";

/** The viewer, which is most of the extension: JupyterLab starts without it, and fetches it for the first view. */
const fetched = () => import("../viewer/mount");
type Door = Awaited<ReturnType<typeof fetched>>;

abstract class View extends Widget {
  protected readonly connected = new Signal<Live | null>(null);
  readonly #box = h("div.ex-lab-box");
  readonly #memory: Memory;
  #mounted: Mounted | null = null;
  #refused = false;
  /** The viewer lays out its panes by the width that there is, so it waits until there is one. */
  readonly #sized = new ResizeObserver(() => this.mountWhenSized());

  /** `place` is the notebook or file that what a person sets up is remembered with. */
  constructor(readonly place: string) {
    super();
    this.#memory = Memory(place);
    styled(style);
    this.addClass("ex-lab");
    const handle = heightHandle(this.#box, pixels => this.#memory.remember("height", pixels));
    this.node.append(this.#box, handle);
    const kept = this.#memory.recall("height");
    setHeight(this.#box, handle, typeof kept === "number" ? kept : preferences.height.value);
    this.#sized.observe(this.#box);
  }

  /** Takes the height of what it is in, instead of one of its own. */
  fill(): void {
    this.addClass("ex-lab-fills");
  }

  /** Says why there is no viewer. */
  refuse(error: unknown): void {
    console.error(error);
    this.#refused = true;
    this.unmount();
    this.#sized.disconnect();
    const message = error instanceof Error ? error.message : String(error);
    fill(this.#box, h("p.ex-lab-refusal", { role: "alert" }, `The record cannot be shown. ${message}`));
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.unmount();
    this.#sized.disconnect();
    super.dispose();
  }

  /** Puts the viewer there; null where there is nothing to show yet. */
  protected abstract mount(box: HTMLElement, door: Door): Mounted | null;

  protected unmount(): void {
    this.#mounted?.dispose();
    this.#mounted = null;
  }

  protected mountWhenSized(): void {
    this.#refused = false;
    if (this.#box.clientWidth > 0)
      void fetched().then(door => this.#mountOnce(door)).catch((error: unknown) => this.refuse(error));
  }

  #mountOnce(door: Door): void {
    if (this.isDisposed || this.#refused || this.#mounted) return;
    this.#mounted = this.mount(this.#box, door);
    if (this.#mounted) this.#sized.disconnect();
  }

  protected host(): Host {
    const [memory, connected] = [this.#memory, this.connected];
    const insert = (text: string) =>
      this.node.dispatchEvent(new CustomEvent(NEW_CELL, { bubbles: true, detail: text }));
    return {
      recall: name => memory.recall(name) ?? (name === "layout" ? preferredLayout() : undefined),
      remember: (name, value) => memory.remember(name, value),
      dark: dark(),
      download,
      live: connected,
      page: template,
      mark: (file, line, text) => {
        const notebook = this.node.closest(".jp-Notebook");
        if (notebook) void fetched().then(door => door.markLine(notebook, `${file.replace("In", "")}:`, line, text));
      },
      ...(this.node.closest(".jp-Notebook") && { insert }),
      link: address => `${URLExt.join(PageConfig.getBaseUrl(), "lab/tree", URLExt.encodeParts(this.place))}${address}`,
    };
  }

  protected override onBeforeAttach(message: Message): void {
    super.onBeforeAttach(message);
    if (this.parent?.hasClass("jp-MimeDocument")) this.fill();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.#box.querySelector<HTMLElement>("[tabindex='0'], button")?.focus();
  }
}

/** The page that reports are made of. Throws where the extension is not installed whole. */
async function template(): Promise<string> {
  const url = URLExt.join(PageConfig.getOption("fullLabextensionsUrl"), TEMPLATE);
  const answer = await fetch(url);
  if (!answer.ok)
    throw new Error(`The report's template is missing at ${url} (${answer.status}): install torch-explorer again.`);
  return answer.text();
}

/** One record. */
export class RecordView extends View {
  #given: { readonly record: unknown } | null = null;
  #viewer: Viewer | null = null;
  #wanted: readonly string[] = [];
  #unfollow: Dispose = () => undefined;

  constructor(place: string) {
    super(place);
    recordViews.add(this);
  }

  /** What is shown; null where nothing is yet, or nothing can be. */
  get record(): RecordData | null {
    return this.#viewer?.record ?? null;
  }

  get live(): Readable<Live | null> {
    return this.connected;
  }

  /** Shows a record, or the next state of the one that it shows; `live` leads to its kernel. */
  display(record: unknown, live: Readable<Live | null> | null): void {
    this.#unfollow();
    this.#unfollow = live ? live.watch(now => (this.connected.value = now)) : () => undefined;
    if (!live) this.connected.value = null;
    this.#given = { record };
    if (this.#viewer) this.#viewer.update(record);
    else this.mountWhenSized();
  }

  /** These panes in front, opened if need be; or places of the record (Shell.address). */
  open(...panes: readonly string[]): void {
    const viewer = this.#viewer;
    if (viewer) panes.forEach(pane => viewer.open(pane));
    else this.#wanted = panes;
  }

  /** One HTML file with this record and its viewer. Throws where the extension is not installed whole. */
  async report(): Promise<string> {
    const { record } = this;
    if (!record) throw new Error("There is no record here to make a report of.");
    return filled(await template(), record);
  }

  override dispose(): void {
    if (this.isDisposed) return;
    recordViews.delete(this);
    this.#unfollow();
    super.dispose();
  }

  protected override mount(box: HTMLElement, door: Door): Viewer | null {
    if (!this.#given) return null;
    this.#viewer = door.mount(box, this.#given.record, { ...this.host(), report: () => this.report() });
    this.open(...this.#wanted);
    if (ASKED.includes("/") && this.#viewer.open(ASKED)) this.node.scrollIntoView();
    return this.#viewer;
  }

  protected override unmount(): void {
    super.unmount();
    this.#viewer = null;
  }
}

/** Capture methods compared, or the ranks of one job. */
export class ComparedView extends View {
  #given: { readonly data: unknown } | null = null;

  display(data: unknown): void {
    this.#given = { data };
    this.unmount();
    this.mountWhenSized();
  }

  protected override mount(box: HTMLElement, door: Door): Mounted | null {
    const given = this.#given;
    return given
      && door.mountAny(box, given.data, { ...this.host(), report: async () => filled(await template(), given.data) });
  }
}

/** Two records, stage by stage. */
export class DiffPanel extends View {
  #given: readonly [before: unknown, after: unknown] | null = null;

  /** What is no record is told of in its place. */
  display(before: unknown, after: unknown): void {
    this.#given = [before, after];
    this.unmount();
    this.mountWhenSized();
  }

  protected override mount(box: HTMLElement, door: Door): Mounted | null {
    return this.#given && door.mountDiff(box, ...this.#given, this.host());
  }
}

/** The records in the page, for the commands that act on one of them. */
export const recordViews = new Set<RecordView>();

const LEAST = 240;
const MOST = 4000;
const STEP = 40;

/** A handle that sets the height of `box`; `settled` is told where it was left. */
function heightHandle(box: HTMLElement, settled: (pixels: number) => void): HTMLElement {
  const handle = h("div.ex-lab-handle", {
    role: "separator", tabindex: 0, "aria-orientation": "horizontal",
    "aria-label": "Height of the viewer", "aria-valuemin": LEAST, "aria-valuemax": MOST,
    title: "Drag, or use the arrow keys, to change the viewer's height",
  });
  const resize = (pixels: number) => setHeight(box, handle, pixels);
  on(handle, "pointerdown", down => {
    if (down.button !== 0) return;
    down.preventDefault();
    const from = box.offsetHeight - down.clientY;
    handle.setPointerCapture(down.pointerId);
    handle.onpointermove = move => resize(from + move.clientY);
    handle.onlostpointercapture = () => {
      handle.onpointermove = handle.onlostpointercapture = null;
      settled(box.offsetHeight);
    };
  });
  on(handle, "keydown", event => {
    const step = { ArrowUp: -STEP, ArrowDown: STEP }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    resize(box.offsetHeight + step);
    settled(box.offsetHeight);
  });
  return handle;
}

function setHeight(box: HTMLElement, handle: HTMLElement, pixels: number): void {
  const height = Math.round(Math.min(MOST, Math.max(LEAST, pixels)));
  box.style.height = `${height}px`;
  aria(handle, "valuenow", height);
}
