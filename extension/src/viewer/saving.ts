// What can be saved as a file: the record, one page with everything, and what each open pane offers.

import { openDialog } from "./dialog";
import { h } from "./dom";
import { fileName } from "./filename";
import type { Host } from "./host";
import type { Item } from "./menu";
import type { Export } from "./pane";

const MIMES: { readonly [kind in Export["kind"]]: string } = { svg: "image/svg+xml", png: "image/png", txt: "text/plain" };

export class Saving {
  readonly #root: HTMLElement;
  readonly #host: Host;

  constructor(root: HTMLElement, host: Host) {
    this.#root = root;
    this.#host = host;
  }

  whole(record: { readonly title: string }, what = "record", suffix = "explore.json"): Item[] {
    const name = fileName(record.title);
    const { report } = this.#host;
    return [
      { label: `This ${what} (.${suffix})`, run: () => this.#host.download(`${name}.${suffix}`, "application/json", JSON.stringify(record)) },
      {
        label: "Everything as one page (.html)",
        unavailable: report ? undefined : `This place cannot make one; use to_html("FILE.html") of the ${what} in Python`,
        run: () => report && this.#save(`${name}.html`, "text/html", () => report.call(this.#host)),
      },
    ];
  }

  items(exports: readonly Export[]): Item[] {
    return exports.map(({ name, kind, make }) => ({ label: `Save ${name}.${kind}`, run: () => this.#save(`${name}.${kind}`, MIMES[kind], make) }));
  }

  #save(name: string, mime: string, make: () => Promise<string | Blob>): void {
    void make().then(
      contents => this.#host.download(name, mime, contents),
      (error: unknown) => openDialog(this.#root, `${name} could not be made`, false, h("p", error instanceof Error ? error.message : String(error))),
    );
  }
}
