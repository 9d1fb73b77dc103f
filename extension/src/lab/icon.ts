import { LabIcon } from "@jupyterlab/ui-components";

/** Layers, each made from the one above. Plain data: the icon of a file type is copied as JSON. */
export const MARK = {
  name: "torch-explorer:record",
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">
<path d="M12 2 2 7l10 5 10-5z"/><path d="M4.2 11 2 12.1l10 5 10-5-2.2-1.1-7.8 3.9z"/>
<path d="m4.2 16-2.2 1.1 10 4.9 10-4.9-2.200-1.1-7.8 3.9z"/></g></svg>`,
};

export const icon = new LabIcon(MARK);
