// What the backward needs of the forward: kept, read from inputs, or computed again; with bytes and reasons.

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

export class KeptList {
  readonly element = h("aside.ex-g-list", { "aria-label": "What the backward needs of the forward" });
  readonly #summary = h("div.ex-g-list-summary");
  readonly #table: DataTable<SavedData>;
  #compile: CompileData | null = null;
  readonly #context: Context;

  constructor(context: Context, chosen?: (id: string) => void) {
    this.#context = context;
    this.#table = new DataTable<SavedData>("What the backward needs of the forward", [
      {
        name: "Value", text: each => `${each.fate} ${each.id}`, order: each => each.id,
        cell: each => h("span", glyph(each.fate, own(FATES, each.fate) ?? each.fate), " ", h("code", { title: each.id }, each.id)),
      },
      figure("Bytes", each => each.bytes, bytes),
      figure("Recompute", each => each.seconds, seconds, "Of a saved value: operator by operator, from inputs and what else is saved. Empty where it was not measured."),
      { name: "Because", text: each => becauseText(each.why), order: each => each.why.title, cell: each => because(each.why, this.#context) },
    ], context.selection, {
      keys: each => [key(this.#compile?.id ?? "", each.id)],
      chosen: each => chosen?.(each.id),
    });
    this.element.append(this.#summary, this.#table.element);
  }

  show(compile: CompileData): void {
    if (this.#compile === compile) return;
    this.#compile = compile;
    const saved = compile.saved ?? [];
    fill(this.#summary, ...FATES_IN_ORDER.flatMap(fate => {
      const some = saved.filter(each => each.fate === fate);
      const total = sum(some, each => each.bytes);
      return some.length ? [h("div", glyph(fate), ` ${SUMMARY[fate]}: ${count(some.length, "value")}, ${bytes(total)}`)] : [];
    }));
    const rank = (each: SavedData) => FATES_IN_ORDER.indexOf(each.fate as (typeof FATES_IN_ORDER)[number]);
    this.#table.show([...saved].sort((a, b) => rank(a) - rank(b) || b.bytes - a.bytes));
  }

  dispose(): void {
    this.#table.dispose();
  }
}

const SUMMARY = { kept: "Saved", recomputed: "Recomputed", input: "Inputs, in memory anyway" } as const;
