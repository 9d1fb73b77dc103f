// What can be saved as a file: the record, one page with everything, and what each open pane offers.

import { openDialog } from "./dialog";
import { h } from "./dom";
import { fileName } from "./filename";
import type { Host, Live } from "./host";
import type { Item } from "./menu";
import type { Export } from "./pane";

const KINDS: { readonly [kind in Export["kind"]]: readonly [mime: string, called: string] } = {
  svg: ["image/svg+xml", "SVG"], png: ["image/png", "PNG"], txt: ["text/plain", "text"],
};

/** All of a record of which an output holds a part, as a file. Once: what another page asks for comes here too. */
export function kept(live: Live): Promise<Blob> {
  return new Promise(done => {
    const leave = live.listen(message => {
      if (message.type !== "kept") return;
      leave();
      done(new Blob([Uint8Array.from(atob(message.packed), letter => letter.charCodeAt(0))], { type: "application/gzip" }));
    });
    live.send({ type: "keep" });
  });
}

export class Saving {
  readonly #root: HTMLElement;
  readonly #host: Host;

  constructor(root: HTMLElement, host: Host) {
    this.#root = root;
    this.#host = host;
  }

  whole(record: { readonly title: string; readonly cut?: boolean }, what = "record", suffix = "explore.json"): Item[] {
    const name = fileName(record.title);
    const { report } = this.#host;
    const live = record.cut ? this.#host.live.value : null;
    return [
      ...(live ? [{ label: `All of this ${what}, from the kernel (.${suffix}.gz)`, run: () => this.#save(`${name}.${suffix}.gz`, "application/gzip", () => kept(live)) }] : []),
      { label: `This ${what}${record.cut ? ", shortened" : ""} (.${suffix})`, run: () => this.#host.download(`${name}.${suffix}`, "application/json", JSON.stringify(record)) },
      {
        label: record.cut ? "One page, shortened (.html)" : "Everything as one page (.html)",
        unavailable: report ? undefined : `This place cannot make one; use to_html("FILE.html") of the ${what} in Python`,
        run: () => report && this.#save(`${name}.html`, "text/html", () => report.call(this.#host)),
      },
    ];
  }

  items(exports: readonly Export[]): Item[] {
    return exports.map(({ name, kind, make }) => ({ label: `Save ${name} as ${KINDS[kind][1]}`, run: () => this.#save(`${name}.${kind}`, KINDS[kind][0], make) }));
  }

  #save(name: string, mime: string, make: () => Promise<string | Blob>): void {
    void make().then(
      contents => this.#host.download(name, mime, contents),
      (error: unknown) => openDialog(this.#root, `${name} could not be made`, false, h("p", error instanceof Error ? error.message : String(error))),
    );
  }
}
