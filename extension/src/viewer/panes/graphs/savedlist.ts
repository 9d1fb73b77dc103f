// What the backward reads from the forward: saved, read from inputs, or recomputed; with bytes and reasons.

import { reasonLink, reasonText } from "../../reasonlink";
import { DataTable, figure } from "../../datatable";
import { fill, h } from "../../dom";
import { key } from "../../element";
import { bytes, count, seconds } from "../../format";
import { own, sum } from "../../collections";
import type { Context } from "../../pane";
import type { CompileData, SavedData } from "../../record";
import { glyph } from "./legend";
import { SAVED_KINDS } from "./scene";

const KINDS_IN_ORDER = ["saved", "recomputed", "input"] as const;

export function SavedList(context: Context, chosen?: (id: string) => void) {
  const element = h("aside.ex-g-list", { "aria-label": "What the backward reads from the forward" });
  const summary = h("div.ex-g-list-summary");
  let shownCompile: CompileData | null = null;
  const dispose = () => table.dispose();
  const table = DataTable<SavedData>("What the backward reads from the forward", [
    {
      name: "Value", text: each => `${each.kind} ${each.id}`, order: each => each.id,
      cell: each => h("span", glyph(each.kind, own(SAVED_KINDS, each.kind) ?? each.kind), " ", h("code",
        { title: each.id }, each.id)),
    },
    figure("Bytes", each => each.bytes, bytes),
    figure("Recompute", each => each.seconds, seconds),
    { name: "Reason", text: each => reasonText(each.why), order: each => each.why.title,
      cell: each => reasonLink(each.why, context) },
  ], context.selection, {
    keys: each => [key(shownCompile?.id ?? "", each.id)],
    chosen: each => chosen?.(each.id),
  });
  element.append(summary, table.element);

  function show(compile: CompileData): void {
    if (shownCompile === compile) return;
    shownCompile = compile;
    const saved = compile.saved ?? [];
    fill(summary, ...KINDS_IN_ORDER.flatMap(kind => {
      const some = saved.filter(each => each.kind === kind);
      const total = sum(some, each => each.bytes);
      return some.length
        ? [h("div", glyph(kind), ` ${SUMMARY[kind]}: ${count(some.length, "value")}, ${bytes(total)}`)] : [];
    }));
    const rank = (each: SavedData) => KINDS_IN_ORDER.indexOf(each.kind as (typeof KINDS_IN_ORDER)[number]);
    table.show([...saved].sort((a, b) => rank(a) - rank(b) || b.bytes - a.bytes));
  }

  return { element, show, dispose };
}

export type SavedList = ReturnType<typeof SavedList>;

const SUMMARY = { saved: "Saved", recomputed: "Recomputed", input: "Inputs, in memory anyway" } as const;
