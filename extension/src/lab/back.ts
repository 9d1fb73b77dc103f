// Buttons that go back, beside those of JupyterLab's debugger, which has none: for the recorded steps that `%step
// --debugger` puts into it. The debugger of Python cannot go back.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { CommandToolbarButton, LabIcon, type PanelWithToolbar } from "@jupyterlab/ui-components";
import type { Widget } from "@lumino/widgets";

/** A screen reader says the caption of a button without a label. */
const MOVES = [["reverseContinue", "M3 3h2v10H3zM13 3v10L6 8z", "Back to the Breakpoint Before"],
  ["stepBack", "M12 3v10L4 8z", "Step Back"]] as const;

export function addBack(app: JupyterFrontEnd, tracker: INotebookTracker): void {
  const { commands } = app;
  const shown = MOVES.map(([request, d, caption]) => {
    const id = `torch-explorer:${request}`;
    commands.addCommand(id, {
      label: caption,
      caption,
      execute: () => {
        const asked = tracker.currentWidget?.sessionContext.session?.kernel?.requestDebug(
          { type: "request", seq: 0, command: request, arguments: {} });
        if (asked)
          asked.onReply = ({ content }) =>
            void (content.success || Notification.error("Only recorded steps go back: run %step --debugger."));
      },
    });
    return { commands, id, label: "",
      icon: new LabIcon(
        { name: id,
          svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16"><path class="jp-icon3" `
            + `fill="#616161" d="${d}"/></svg>` }) };
  });
  void app.restored.then(() => {
    for (const area of ["left", "right"]) {
      for (const widget of app.shell.widgets(area)) {
        const { callstack } = widget as Widget & { callstack?: PanelWithToolbar };
        if (widget.id !== "jp-debugger-sidebar" || !callstack) continue;
        for (const each of shown) callstack.toolbar.insertItem(0, each.id, new CommandToolbarButton(each));
      }
    }
  });
}
