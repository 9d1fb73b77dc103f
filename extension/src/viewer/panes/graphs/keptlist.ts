// What the backward reads from the forward: kept, read from inputs, or computed again; with bytes and reasons.

import { because, becauseText } from "../../because";
import { DataTable, figure } from "../../datatable";
import { fill, h } from "../../dom";
import { key } from "../../element";
import { bytes, count, seconds } from "../../format";
import { own, sum } from "../../gather";
import type { Context } from "../../pane";
import type { CompileData, SavedData } from "../../record";
import { glyph } from "./legend";
import { FATES } from "./scene";

const FATES_IN_ORDER = ["kept", "recomputed", "input"] as const;

export function KeptList(context: Context, chosen?: (id: string) => void) {
  const element = h("aside.ex-g-list", { "aria-label": "What the backward reads from the forward" });
  const summary = h("div.ex-g-list-summary");
  let shownCompile: CompileData | null = null;
  const dispose = () => table.dispose();
  const table = DataTable<SavedData>("What the backward reads from the forward", [
    {
      name: "Value", text: each => `${each.fate} ${each.id}`, order: each => each.id,
      cell: each => h("span", glyph(each.fate, own(FATES, each.fate) ?? each.fate), " ", h("code", { title: each.id }, each.id)),
    },
    figure("Bytes", each => each.bytes, bytes),
    figure("Recompute", each => each.seconds, seconds, "Time to recompute a saved value from inputs and other saved values, operator by operator. Empty if it was not measured."),
    { name: "Because", text: each => becauseText(each.why), order: each => each.why.title, cell: each => because(each.why, context) },
  ], context.selection, {
    keys: each => [key(shownCompile?.id ?? "", each.id)],
    chosen: each => chosen?.(each.id),
  });
  element.append(summary, table.element);

  function show(compile: CompileData): void {
    if (shownCompile === compile) return;
    shownCompile = compile;
    const saved = compile.saved ?? [];
    fill(summary, ...FATES_IN_ORDER.flatMap(fate => {
      const some = saved.filter(each => each.fate === fate);
      const total = sum(some, each => each.bytes);
      return some.length ? [h("div", glyph(fate), ` ${SUMMARY[fate]}: ${count(some.length, "value")}, ${bytes(total)}`)] : [];
    }));
    const rank = (each: SavedData) => FATES_IN_ORDER.indexOf(each.fate as (typeof FATES_IN_ORDER)[number]);
    table.show([...saved].sort((a, b) => rank(a) - rank(b) || b.bytes - a.bytes));
  }

  return { element, show, dispose };
}

export type KeptList = ReturnType<typeof KeptList>;

const SUMMARY = { kept: "Saved", recomputed: "Recomputed", input: "Inputs, in memory anyway" } as const;
