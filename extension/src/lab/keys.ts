// Plain keys belong to the viewer while it has the focus: JupyterLab would otherwise take its arrows and letters for
// commands on cells. Those with Ctrl or Meta stay JupyterLab's, so that saving and the palette work as everywhere.

export function shareKeys(page: Window): void {
  // JupyterLab listens on the document while the event comes down, so this has to be above it. It tries the element with
  // the focus before any around it, so that the mark has to be on that very element.
  page.addEventListener("keydown", event => {
    const { target } = event;
    if (!(target instanceof Element) || !target.closest(".ex-lab")) return;
    target.toggleAttribute("data-lm-suppress-shortcuts", !event.ctrlKey && !event.metaKey);
  }, true);
}
