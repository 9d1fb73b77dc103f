// The JupyterLab plugins. The MIME renderer (mime.ts) needs none of them; they add what acts on a notebook.

import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IJupyterWidgetRegistry } from "@jupyter-widgets/base";
import { addBack } from "./back";
import { addCommands } from "./commands";
import { preferences } from "./preferences";
import { Sidebar } from "./sidebar";
import { ExplorerModel, ExplorerView, MODULE, MODULE_VERSION } from "./widget";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "torch-explorer:plugin",
  description: "Commands, a sidebar and settings for records of torch-explorer.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ISettingRegistry, ILabShell, ILayoutRestorer],
  activate: async (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    settings: ISettingRegistry | null,
    lab: ILabShell | null,
    restorer: ILayoutRestorer | null,
  ) => {
    shareKeys(window);
    addCommands(app, tracker, palette);
    addBack(app, tracker);
    const sidebar = new Sidebar(tracker);
    app.shell.add(sidebar, lab ? "left" : "right", { rank: 900 });
    restorer?.add(sidebar, sidebar.id);
    if (settings) await follow(settings);
  },
};

async function follow(registry: ISettingRegistry): Promise<void> {
  const settings = await registry.load(plugin.id);
  const read = () => {
    preferences.height.value = settings.composite["height"] as number;
    preferences.panes.value = settings.composite["panes"] as string[][];
  };
  settings.changed.connect(read);
  read();
}

const widgets: JupyterFrontEndPlugin<void> = {
  id: "torch-explorer:widgets",
  description: "Connects a record to the Jupyter kernel that made it.",
  autoStart: true,
  optional: [IJupyterWidgetRegistry],
  activate: (_: JupyterFrontEnd, registry: IJupyterWidgetRegistry | null) => {
    registry?.registerWidget({ name: MODULE, version: MODULE_VERSION, exports: { ExplorerModel, ExplorerView } });
  },
};

export default [plugin, widgets];

/** Plain keys belong to the viewer while it has the focus: JupyterLab would otherwise take its arrows and letters for
 * commands on cells. Those with Ctrl or Meta stay JupyterLab's, so that saving and the palette work as everywhere. */
function shareKeys(page: Window): void {
  // JupyterLab listens on the document while the event comes down, so this has to be above it. It tries the element
  // with the focus before any around it, so that the mark has to be on that very element.
  page.addEventListener("keydown", event => {
    const { target } = event;
    if (!(target instanceof Element) || !target.closest(".ex-lab")) return;
    target.toggleAttribute("data-lm-suppress-shortcuts", !event.ctrlKey && !event.metaKey);
  }, true);
}
