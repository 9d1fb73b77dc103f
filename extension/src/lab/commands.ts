// What the palette and the cell's context menu offer for the record in hand: that of the tab in front, or of the
// active cell.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { type ICommandPalette, InputDialog, MainAreaWidget, showErrorMessage } from "@jupyterlab/apputils";
import { type INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import { download, opened } from "../page/files";
import { TITLES } from "../viewer/panes/titles";
import { icon } from "./icon";
import { recordsOf, stamp } from "./sidebar";
import { DiffPanel, NEW_CELL, RecordView, recordViews } from "./view";
import { fileName } from "../viewer/format";

const CATEGORY = "Explorer";

const COMMAND = {
  open: "torch-explorer:open",
  report: "torch-explorer:report",
  diff: "torch-explorer:diff",
  pane: "torch-explorer:pane",
} as const;

export function addCommands(app: JupyterFrontEnd, tracker: INotebookTracker, palette: ICommandPalette | null): void {
  const { commands } = app;
  const inHand = () => viewInHand(app, tracker);
  const here = { isEnabled: () => inHand() !== null };

  commands.addCommand(COMMAND.open, {
    label: "Open This Cell's Record in a Tab",
    icon,
    ...here,
    execute: () => {
      const from = inHand();
      if (!from?.record) return;
      const view = new RecordView(from.place);
      view.display(from.record, from.live);
      openTab(app, view, from.record.title);
    },
  });
  commands.addCommand(COMMAND.diff, {
    label: "Compare This Record with Another of the Notebook…",
    ...here,
    execute: async () => {
      const after = inHand()?.record;
      const panel = tracker.currentWidget;
      if (!after || !panel) return;
      const others = recordsOf(panel).filter(each => stamp(each.record) !== stamp({ ...after }));
      if (!others.length) {
        await showErrorMessage("Nothing to compare with",
          "This notebook has no other record. Run another cell with %%explore.");
        return;
      }
      const names = others.map((each, n) => `${n + 1}. Cell ${each.index + 1}: ${each.record.title}`);
      const answer =
        await InputDialog.getItem({ title: `What came before ${after.title}?`, items: names, label: "Record" });
      const before = others[names.indexOf(answer.value ?? "")]?.record;
      if (!answer.button.accept || !before) return;
      const diffPanel = new DiffPanel(panel.context.path);
      try {
        diffPanel.display(await opened(before), after);
      } catch (error) {
        diffPanel.refuse(error);
      }
      openTab(app, diffPanel, `${before.title} → ${after.title}`);
    },
  });
  commands.addCommand(COMMAND.report, {
    label: "Save This Record's Report (HTML)",
    ...here,
    execute: async () => {
      const view = inHand();
      if (!view?.record) return;
      try {
        download(`${fileName(view.record.title)}.html`, "text/html", await view.report());
      } catch (error) {
        await showErrorMessage("The report could not be made", error instanceof Error ? error : String(error));
      }
    },
  });
  commands.addCommand(COMMAND.pane, {
    label: args => {
      const title = new Map<unknown, string>(Object.entries(TITLES)).get(args["pane"]);
      return title ? `Show Pane: ${title}` : "Show a Pane";
    },
    ...here,
    execute: args => {
      const view = inHand();
      view?.open(String(args["pane"]));
      view?.activate();
    },
    describedBy: { args: { type: "object", properties: { pane: { type: "string", enum: Object.keys(TITLES) } } } },
  });

  document.addEventListener(NEW_CELL, event => {
    const from = event.target as Node;
    const panel = tracker.find(each => each.node.contains(from));
    if (!panel) return;
    panel.content.activeCellIndex = panel.content.widgets.findIndex(each => each.node.contains(from));
    NotebookActions.insertBelow(panel.content);
    panel.content.activeCell?.model.sharedModel.setSource((event as CustomEvent<string>).detail);
  });

  if (!palette) return;
  for (const command of [COMMAND.open, COMMAND.diff, COMMAND.report]) palette.addItem({ command, category: CATEGORY });
  for (const pane of Object.keys(TITLES))
    palette.addItem({ command: COMMAND.pane, args: { pane }, category: CATEGORY });
}

/** The view in the tab in front, or of the notebook's active cell, or null. */
function viewInHand(app: JupyterFrontEnd, tracker: INotebookTracker): RecordView | null {
  const focused = document.activeElement?.closest(".ex-lab");
  const inside = (node: Node | null | undefined) =>
    [...recordViews].find(view => node?.contains(view.node) === true) ?? null;
  if (focused) return inside(focused);
  const current = app.shell.currentWidget;
  if (current && current === tracker.currentWidget) return inside(tracker.activeCell?.node);
  return inside(current?.node);
}

function openTab(app: JupyterFrontEnd, view: RecordView | DiffPanel, title: string): void {
  view.fill();
  const tab = new MainAreaWidget({ content: view });
  tab.title.label = title;
  tab.title.icon = icon;
  tab.title.closable = true;
  app.shell.add(tab, "main", { mode: "split-right" });
  app.shell.activateById(tab.id);
}
