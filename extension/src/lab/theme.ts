import { type Readable, Signal } from "../viewer/signal";

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
