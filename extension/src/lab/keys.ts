// Plain keys belong to the viewer while it has the focus: JupyterLab would otherwise take its arrows and letters for
// commands on cells. Those with Ctrl or Meta stay JupyterLab's, so that saving and the palette work as everywhere.

const SUPPRESS = "data-lm-suppress-shortcuts";

export function shareKeys(page: Window): void {
  // JupyterLab listens on the document while the event comes down, so this has to be above it.
  page.addEventListener("keydown", event => {
    const viewer = event.target instanceof Element ? event.target.closest(".ex-lab .ex-root") : null;
    if (event.ctrlKey || event.metaKey) viewer?.removeAttribute(SUPPRESS);
    else viewer?.setAttribute(SUPPRESS, "true");
  }, true);
}
