// Renders records wherever JupyterLab renders data: outputs of notebooks, with and without a kernel, and files.

import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { opened, unpacked } from "../page/files";
import type { Json } from "../viewer/host";
import { MIME as METHODS_MIME } from "../viewer/methods/data";
import { MIME as RANKS_MIME } from "../viewer/ranks/data";
import { DIFF_MIME, MIME } from "../viewer/record";
import { MARK } from "./icon";
import { lives } from "./live";
import { DiffPanel, ComparedView, RecordView } from "./view";

/** A record's file as gzip compressed it, in base64: how JupyterLab hands over files that are not text. */
const PACKED = "application/vnd.explorer.record+gzip";

class RecordRenderer extends RecordView implements IRenderMime.IRenderer {
  readonly #mimeType: string;
  #last: unknown = null;

  constructor(options: IRenderMime.IRendererOptions) {
    super(pathOf(options.resolver));
    this.#mimeType = options.mimeType;
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const data = model.data[this.#mimeType];
    if (data === this.#last) return;
    this.#last = data;
    try {
      const record: unknown = this.#mimeType === PACKED ? await unpacked(String(data)) : await opened(data);
      if (this.isDisposed || data !== this.#last) return;
      const about = field(model.metadata as Json, MIME);
      const [live, panes] = [field(about, "live"), field(about, "panes")];
      if (Array.isArray(panes)) this.open(...panes.filter(each => typeof each === "string"));
      this.display(record, typeof live === "string" ? lives.of(live) : null);
    } catch (error) {
      this.refuse(error);
    }
  }
}

class DiffRenderer extends DiffPanel implements IRenderMime.IRenderer {
  constructor(options: IRenderMime.IRendererOptions) {
    super(pathOf(options.resolver));
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    try {
      const data = (await opened(model.data[DIFF_MIME])) as Json;
      if (!this.isDisposed) this.display(field(data, "before"), field(data, "after"));
    } catch (error) {
      this.refuse(error);
    }
  }
}

class ComparedRenderer extends ComparedView implements IRenderMime.IRenderer {
  readonly #mimeType: string;

  constructor(options: IRenderMime.IRendererOptions) {
    super(pathOf(options.resolver));
    this.#mimeType = options.mimeType;
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    try {
      const compared = await opened(model.data[this.#mimeType]);
      if (!this.isDisposed) this.display(compared);
    } catch (error) {
      this.refuse(error);
    }
  }
}

/** The notebook or file that is rendered; its resolver knows, though the interface does not say so. */
function pathOf(resolver: IRenderMime.IResolver | null): string {
  return resolver && "path" in resolver && typeof resolver.path === "string" ? resolver.path : "";
}

function field(of: Json | undefined, name: string): Json | undefined {
  return typeof of === "object" && of !== null && !Array.isArray(of)
    ? (of as { readonly [key: string]: Json })[name] : undefined;
}

function factory(mime: string, make: IRenderMime.IRendererFactory["createRenderer"]): IRenderMime.IRendererFactory {
  // Safe: shown in notebooks that are not trusted too, since nothing of a record is ever markup or script.
  return { safe: true, mimeTypes: [mime], createRenderer: make };
}

/** Before ipywidgets' views (-10) and everything else that an output may hold. */
const RANK = -20;

/** What is compared as a whole, in outputs and in files NAME.json. */
function compared(name: string, mime: string, displayName: string): IRenderMime.IExtension {
  const type = `explore-${name}`;
  return {
    id: `torch-explorer:${name}`,
    description: `Shows a comparison made by torch-explorer: ${displayName}.`,
    rendererFactory: factory(mime, options => new ComparedRenderer(options)),
    rank: RANK,
    dataType: "json",
    fileTypes: [{ name: type, displayName, extensions: [`.${name}.json`], mimeTypes: [mime], fileFormat: "text",
      icon: MARK }],
    documentWidgetFactoryOptions: { name: `Compiler Explorer (${name})`, primaryFileType: type, fileTypes: [type],
      defaultFor: [type] },
  };
}

const extensions: IRenderMime.IExtension[] = [
  {
    id: "torch-explorer:record",
    description: "Shows records of torch-explorer in outputs and files.",
    rendererFactory: factory(MIME, options => new RecordRenderer(options)),
    rank: RANK,
    dataType: "json",
    fileTypes: [
      {
        name: "explore-record",
        displayName: "Record of torch-explorer",
        extensions: [".explore.json"],
        mimeTypes: [MIME],
        fileFormat: "text",
        icon: MARK,
      },
    ],
    documentWidgetFactoryOptions: {
      name: "Compiler Explorer",
      primaryFileType: "explore-record",
      fileTypes: ["explore-record", "json"],
      defaultFor: ["explore-record"],
    },
  },
  {
    id: "torch-explorer:diff",
    description: "Shows two records of torch-explorer stage by stage.",
    rendererFactory: factory(DIFF_MIME, options => new DiffRenderer(options)),
    rank: RANK,
    dataType: "json",
  },
  compared("methods", METHODS_MIME, "Capture methods compared"),
  compared("ranks", RANKS_MIME, "Ranks of one job"),
  {
    id: "torch-explorer:packed-record",
    description: "Shows compressed records of torch-explorer.",
    rendererFactory: factory(PACKED, options => new RecordRenderer(options)),
    rank: RANK,
    dataType: "string",
    fileTypes: [
      {
        name: "explore-record-packed",
        displayName: "Compressed record of torch-explorer",
        extensions: [".explore.json.gz"],
        mimeTypes: [PACKED],
        fileFormat: "base64",
        icon: MARK,
      },
    ],
    documentWidgetFactoryOptions: {
      name: "Compiler Explorer (compressed)",
      modelName: "base64",
      primaryFileType: "explore-record-packed",
      fileTypes: ["explore-record-packed"],
      defaultFor: ["explore-record-packed"],
    },
  },
];

export default extensions;
