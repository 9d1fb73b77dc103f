// What JupyterLab says of how a viewer looks: the settings editor, and the theme.

import type { Json } from "../viewer/host";
import { layoutOf, saved } from "../viewer/layout";
import { Signal, type Readable } from "../viewer/signal";

/** What the settings editor says; the MIME renderer, which JupyterLab makes without plugins, reads it here. */
export const preferences = {
  /** Pixels of an output, until it is dragged to another height. */
  height: new Signal(640),
  /** Panes by column in a notebook that nobody has arranged yet; empty for what fits the width. */
  panes: new Signal<readonly (readonly string[])[]>([]),
};

/** The preferred panes as the viewer remembers a layout; undefined where none are preferred. */
export function preferredLayout(): Json | undefined {
  const columns = preferences.panes.value.filter(tabs => tabs.length > 0);
  return columns.length > 0 ? saved(layoutOf(...columns.map(tabs => [tabs]))) : undefined;
}

let followed: Signal<boolean> | null = null;

/** Whether JupyterLab's theme is dark, as it says on the page's body (also in Notebook, where no theme manager has
 * to be asked for). */
export function dark(): Readable<boolean> {
  if (followed) return followed;
  const signal = (followed = new Signal(isDark()));
  const observer = new MutationObserver(() => (signal.value = isDark()));
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  return signal;
}

const isDark = (): boolean => document.body.dataset["jpThemeLight"] === "false";
