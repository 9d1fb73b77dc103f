// A viewer in a Lumino widget: in an output of a notebook, in a tab of its own, or among ipywidgets.

import { PageConfig, URLExt } from "@jupyterlab/coreutils";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { download } from "../page/download";
import { Memory } from "../page/memory";
import { filled } from "../page/report";
import { h } from "../viewer/dom";
import type { Host, Live } from "../viewer/host";
import { mount, type Viewer } from "../viewer/mount";
import type { RecordData } from "../viewer/record";
import { type Dispose, type Readable, Signal } from "../viewer/signal";
import { heightHandle, setHeight } from "./height";
import { preferences, preferredLayout } from "./preferences";
import { dark } from "./theme";

const TEMPLATE = "torch-explorer/static/report.html";

/** The views in the page, for the commands that act on one of them. */
export const views = new Set<RecordView>();

export class RecordView extends Widget {
  private readonly box = h("div", { class: "ex-lab-box" });
  private readonly memory: Memory;
  private readonly connected = new Signal<Live | null>(null);
  private unfollow: Dispose = () => undefined;
  private shown: RecordData | null = null;
  private viewer: Viewer | null = null;
  private wanted: readonly string[] = [];
  /** The viewer lays out its panes by the width that there is, so it waits until there is one. */
  private readonly sized = new ResizeObserver(() => {
    if (this.box.clientWidth > 0) this.mount();
  });

  /** `place` is the notebook or file that what a person sets up is remembered with. */
  constructor(readonly place: string) {
    super();
    this.memory = new Memory(place);
    this.addClass("ex-lab");
    const handle = heightHandle(this.box, pixels => this.memory.remember("height", pixels));
    this.node.append(this.box, handle);
    const kept = this.memory.recall("height");
    setHeight(this.box, handle, typeof kept === "number" ? kept : preferences.height.value);
    this.sized.observe(this.box);
    views.add(this);
  }

  get record(): RecordData | null {
    return this.shown;
  }

  get live(): Readable<Live | null> {
    return this.connected;
  }

  /** Takes the height of what it is in, instead of one of its own. */
  fill(): void {
    this.addClass("ex-lab-fills");
  }

  /** Shows a record, or the next state of the one that it shows; `live` leads to its kernel. */
  display(record: RecordData, live: Readable<Live | null> | null): void {
    this.unfollow();
    this.unfollow = live ? live.watch(now => (this.connected.value = now)) : () => undefined;
    if (!live) this.connected.value = null;
    this.shown = record;
    if (this.viewer) this.viewer.update(record);
    else if (this.box.clientWidth > 0) this.mount();
  }

  /** Says why there is no viewer. */
  refuse(error: unknown): void {
    console.error(error);
    this.sized.disconnect();
    this.viewer?.dispose();
    this.viewer = null;
    const said = error instanceof Error ? error.message : String(error);
    this.box.replaceChildren(h("p", { class: "ex-lab-refusal", role: "alert" }, `The record cannot be shown. ${said}`));
  }

  /** These panes in front, opened if need be. */
  open(...panes: readonly string[]): void {
    if (this.viewer) panes.forEach(pane => this.viewer?.show(pane));
    else this.wanted = panes;
  }

  /** One HTML file with this record and its viewer. Throws where the extension is not installed whole. */
  async report(): Promise<string> {
    if (!this.shown) throw new Error("There is no record here to make a report of.");
    const url = URLExt.join(PageConfig.getOption("fullLabextensionsUrl"), TEMPLATE);
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`The report's template is missing at ${url} (${answer.status}): install torch-explorer again.`);
    return filled(await answer.text(), this.shown);
  }

  override dispose(): void {
    if (this.isDisposed) return;
    views.delete(this);
    this.sized.disconnect();
    this.unfollow();
    this.viewer?.dispose();
    super.dispose();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.box.querySelector<HTMLElement>("[tabindex='0'], button")?.focus();
  }

  private mount(): void {
    if (!this.shown || this.viewer) return;
    this.sized.disconnect();
    try {
      this.viewer = mount(this.box, this.shown, this.host());
      this.open(...this.wanted);
    } catch (error) {
      this.refuse(error);
    }
  }

  private host(): Host {
    const { memory, live } = this;
    return {
      recall: name => memory.recall(name) ?? (name === "layout" ? preferredLayout() : undefined),
      remember: (name, value) => memory.remember(name, value),
      dark: dark(),
      download,
      live,
      report: () => this.report(),
    };
  }
}
