// What can be saved as a file: the record, one page with everything, and what each open pane offers.

import { openDialog, type MenuItem } from "./overlays";
import { h } from "./dom";
import type { Host, Live } from "./host";
import type { Export } from "./pane";
import type { Made, ToKernel, ToPage } from "./protocol";
import { fileName } from "./format";
import { decoded } from "./inflate";

const KINDS: { readonly [kind in Export["kind"]]: readonly [mime: string, called: string] } = {
  svg: ["image/svg+xml", "SVG"], png: ["image/png", "PNG"], txt: ["text/plain", "text"],
  py: ["text/x-python", "a program"], json: ["application/json", "a trace for Perfetto"],
};

/** The first message that `is` what answers. Once: what another page asks for comes here too. */
function answered<Message extends ToPage>(live: Live, asked: ToKernel,
    is: (message: ToPage) => message is Message): Promise<Message> {
  return new Promise(done => {
    const leave = live.listen(message => {
      if (!is(message)) return;
      leave();
      done(message);
    });
    live.send(asked);
  });
}

/** All of a record of which an output holds a part, as a file. */
export async function kept(live: Live): Promise<Blob> {
  const { packed } = await answered(live, { type: "keep" }, message => message.type === "kept");
  return new Blob([decoded(packed)], { type: "application/gzip" });
}

/** What Python makes of a record that a kernel holds; `python` is how to ask for it where there is none. */
export async function made({ live }: Host, python: string, what: string, compile = "", id = ""): Promise<string> {
  if (!live.value) throw new Error(`No Jupyter kernel is attached. In Python: record.${python}`);
  const run = [what, compile, id].join();
  const { text = "", error } = await answered(live.value, { type: "make", run, what, compile, id },
    (message): message is Made => message.type === "made" && message.run === run);
  if (error) throw new Error(error);
  return text;
}

/** A file that runs a graph or a kernel by itself. */
export function program(host: Host, name: string, compile: string, id: string): Export {
  return { kind: "py", name, make: () => made(host, `repro("${id}", "${compile}")`, "program", compile, id) };
}

export function Saving(root: HTMLElement, host: Host) {
  const saveOne = ({ name, kind, make }: Export) => save(`${name}.${kind}`, KINDS[kind][0], make);

  function whole(record: { readonly title: string; readonly cut?: boolean }, what = "record",
      suffix = "explore.json"): MenuItem[] {
    const name = fileName(record.title);
    const { report } = host;
    const live = record.cut ? host.live.value : null;
    return [
      ...(live
        ? [{ label: `All of this ${what}, from the kernel (.${suffix}.gz)`,
          run: () => save(`${name}.${suffix}.gz`, "application/gzip", () => kept(live)) }] : []),
      { label: `This ${what}${record.cut ? ", shortened" : ""} (.${suffix})`,
        run: () => host.download(`${name}.${suffix}`, "application/json", JSON.stringify(record)) },
      {
        label: record.cut ? "One page, shortened (.html)" : "Everything as one page (.html)",
        unavailable: report ? undefined : `It cannot be made here; use to_html("FILE.html") of the ${what} in Python`,
        run: () => report && save(`${name}.html`, "text/html", () => report.call(host)),
      },
    ];
  }

  function items(exports: readonly Export[]): MenuItem[] {
    return exports.map(each => ({ label: `Save ${each.name} as ${KINDS[each.kind][1]}`, run: () => saveOne(each) }));
  }

  function save(name: string, mime: string, make: () => Promise<string | Blob>): void {
    void make().then(
      contents => host.download(name, mime, contents),
      (error: unknown) => openDialog(
        root, `${name} could not be made`, false, h("p", error instanceof Error ? error.message : String(error))),
    );
  }

  return { whole, items, saveOne };
}
