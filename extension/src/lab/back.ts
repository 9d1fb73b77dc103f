// Buttons that go back, beside those of JupyterLab's debugger, which has none: for the recorded steps that `%step --debugger`
// puts into it. The debugger of Python cannot go back.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { CommandToolbarButton, type PanelWithToolbar } from "@jupyterlab/ui-components";
import type { Widget } from "@lumino/widgets";

const MOVES = [["reverseContinue", "|◀", "Back to the Breakpoint Before"], ["stepBack", "◀", "Step Back"]] as const;

export function addBack(app: JupyterFrontEnd, tracker: INotebookTracker): void {
  const { commands } = app;
  for (const [request, label, caption] of MOVES) {
    commands.addCommand(`torch-explorer:${request}`, {
      label: args => (args["toolbar"] ? label : caption),
      caption,
      execute: () => {
        const asked = tracker.currentWidget?.sessionContext.session?.kernel?.requestDebug({ type: "request", seq: 0, command: request, arguments: {} });
        if (asked) asked.onReply = ({ content }) => void (content.success || Notification.error("Only recorded steps go back: run %step --debugger."));
      },
    });
  }
  void app.restored.then(() => {
    for (const area of ["left", "right"]) {
      for (const each of app.shell.widgets(area)) {
        const { callstack } = each as Widget & { callstack?: PanelWithToolbar };
        if (each.id !== "jp-debugger-sidebar" || !callstack) continue;
        for (const [request] of MOVES) callstack.toolbar.insertItem(0, request, new CommandToolbarButton({ commands, id: `torch-explorer:${request}`, args: { toolbar: true } }));
      }
    }
  });
}
