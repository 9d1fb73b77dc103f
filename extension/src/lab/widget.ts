// The ipywidgets side of a live record: a model that carries messages, and a view for layouts made of widgets.

import { Widget } from "@lumino/widgets";
import { DOMWidgetModel, DOMWidgetView } from "@jupyter-widgets/base";
import type { Live } from "../viewer/host";
import type { ToPage } from "../viewer/protocol";
import { type RecordData, VERSION } from "../viewer/record";
import type { Dispose } from "../viewer/signal";
import { Channel, lives } from "./live";
import { RecordView } from "./view";

export const MODULE = "torch-explorer";
export const MODULE_VERSION = "0.1.0";

export class ExplorerModel extends DOMWidgetModel {
  override defaults(): Backbone.ObjectHash {
    return {
      ...super.defaults(),
      _model_module: MODULE,
      _model_module_version: `^${MODULE_VERSION}`,
      _model_name: "ExplorerModel",
      _view_module: MODULE,
      _view_module_version: `^${MODULE_VERSION}`,
      _view_name: "ExplorerView",
    };
  }

  override initialize(...[attributes, options]: Parameters<DOMWidgetModel["initialize"]>): void {
    super.initialize(attributes, options);
    // Kept here, not in fields: Backbone calls this before a subclass's fields are set.
    let disconnect: Dispose = () => undefined;
    const channel = Channel();
    const live: Live = {
      listen: listener => channel.listen(listener),
      send: message => this.send(message as unknown as Backbone.ObjectHash, {}),
      interrupt: () => void (this.widget_manager as Partial<KernelsManager>).kernel?.interrupt(),
    };
    this.on("msg:custom", (message: ToPage) => channel.hear(message));
    const follow = () => {
      disconnect();
      disconnect = this.comm_live ? lives.connect(this.model_id, live) : () => undefined;
    };
    this.on("comm_live_update", follow);
    this.on("destroy", () => disconnect());
    follow();
  }
}

/** Jupyter's widget managers know their kernel, though ipywidgets does not ask it of every manager. */
interface KernelsManager {
  readonly kernel: { interrupt(): Promise<void> } | null;
}

/** A record among other widgets. The kernel sends it when the viewer says hello. */
export class ExplorerView extends DOMWidgetView {
  override render(): void {
    super.render();
    const view = new RecordView("widget");
    view.display(AWAITED, lives.of(this.model.model_id));
    this.once("remove", () => view.dispose());
    // Lumino attaches to what is on the page, and this element comes there after it was rendered.
    void this.displayed.then(() => {
      if (!view.isDisposed) Widget.attach(view, this.el);
    });
  }
}

const AWAITED: RecordData = {
  version: VERSION, title: "", engine: "", target: "", created: "",
  environment: {}, config: {}, sources: [], compiles: [], coverage: {},
};
