// Two records in one viewer: which compiles are compared, and their difference.

import { fill, h, on } from "../dom";
import { phrase } from "../format";
import { type Host, remembered } from "../host";
import { menuButton } from "../menu";
import type { RecordData } from "../record";
import { Saving } from "../saving";
import { ends } from "../signal";
import { notesOf } from "../status";
import { type CompilePair, compilePairs } from "./compare";
import { DiffView } from "./view";
import { compileName } from "../stages";

const NARROW = 720;
let mounted = 0;

/** `first` says which compiles to begin with; the first ones where it is absent, or says so of none. */
export function DiffShell(
  root: HTMLElement, before: RecordData, after: RecordData, host: Host, first?: (pair: CompilePair) => boolean,
) {
  let view: DiffView | null = null;
  const name = `ex-diff-page${++mounted}`;
  const pairs = compilePairs(before, after);
  const [mode, endMode] = remembered<string>(host, "diff.mode", root.clientWidth < NARROW ? "unified" : "split");
  const [folded, endFolded] = remembered<boolean>(host, "diff.folded", false);
  const saving = Saving(root, host);
  const chooser = h("select.ex-select", { "aria-label": "Compiles compared" }, ...pairs.map((pair, n) =>
    h("option", { value: n },
      `${pair.before ? compileName(pair.before) : "nothing"} → ${pair.after ? compileName(pair.after) : "nothing"}`)));
  const [old, fresh] =
    before.title === after.title ? [`${before.title} (before)`, `${after.title} (after)`] : [before.title, after.title];
  const badge = (record: RecordData) => h("span.ex-badge",
    { title: "The compiler, and what it generated code for" }, phrase([record.engine, record.target], " · "));
  const header = h(
    "header.ex-header",
    h("div.ex-title", h("h1", `${old} → ${fresh}`), badge(before),
      ...(before.engine === after.engine && before.target === after.target ? [] : [badge(after)])),
      pairs.length > 1 ? chooser : null,
    h("div.ex-tools", menuButton("Save as a file", "Save", () => saving.items(view?.exports() ?? []))),
  );
  const body = h("div.ex-body");
  fill(root, header, h("div.ex-status", ...notesOf(before, old), ...notesOf(after, fresh)), body);
  const show = () => {
    view?.dispose();
    const pair = pairs[Number(chooser.value || 0)] ?? {};
    view = DiffView(name, { name: old, record: before }, { name: fresh, record: after }, pair, { mode, folded });
    fill(body, view.element);
  };
  on(chooser, "change", show);
  if (first) chooser.value = String(Math.max(0, pairs.findIndex(first)));
  show();
  const dispose = ends(
    endMode, endFolded, host.dark.watch(dark => root.classList.toggle("ex-dark", dark)), () => view?.dispose(),
    () => fill(root),
  );

  return { dispose };
}

export type DiffShell = ReturnType<typeof DiffShell>;
