// How long each buffer lives, where the memory plan put it and why, and what that does to the peak.

import { reasonLink, reasonText } from "../../catalogue";
import { legendEntry, sample } from "../../chart";
import { codes, type TableColumn, DataTable, figure } from "../../datatable";
import { fill, h, svg } from "../../dom";
import { key, parts, type Key } from "../../element";
import { bytes, count } from "../../format";
import { HalfChoice, type Looked, type Context, type Export, type Pane } from "../../pane";
import { Picture, type Presentation } from "../../picture";
import { whyNone } from "../../stages";
import type { BufferData, HalfData } from "../../record";
import { ends } from "../../signal";
import { drawLives, drawPool, LOOKS } from "./draw";
import { planOf, type Plan } from "./plan";
import { SavedList } from "../graphs/nodetable";
import { named } from "../schedule/draw";

/** Buffers, or steps: more of them are a table, in which one can find something. */
const MOST_DRAWN = 1000;

export function memory(into: HTMLElement, context: Context): Pane {
  const headline = h("p.ex-say");
  const legendBelow = legend();
  const empty = h("div.ex-empty");
  const keyOf = (id: string): Key => key(context.compile.value, id);
  const called = ({ name: id, origins }: BufferData) =>
    named({ id, origins }, context.compile.value, context.model).own;
  const choice = HalfChoice(context);
  const rows = { keys: (each: BufferData) => [keyOf(each.name)] };
  const table = DataTable<BufferData>("Buffers", [], context.selection, rows);
  const slots = DataTable<BufferData>("Buffers in the pool", [], context.selection, rows);
  const lives = Picture("Memory over time, and the place of each buffer", table, context.selection,
    context.setting<Presentation>("shown", "drawing"), undefined, choice.element);
  const pool =
    Picture("Layout of the pool", slots, context.selection, context.setting<Presentation>("pool", "drawing"));
  const saved = SavedList(context);
  lives.element.insertBefore(headline, lives.element.children[1] ?? null);
  lives.element.append(legendBelow);
  const body = h("div.ex-pad", lives.element, pool.element, saved.element);
  into.append(empty, body);
  const dispose = ends(choice.looked.watch(render), choice, lives, pool, saved);

  function reveal(what: Key): boolean {
    const { compile, id } = parts(what);
    if (compile !== context.compile.value) return false;
    choice.showWith(half => (half.buffers ?? []).some(each => each.name === id && each.kind !== "input"));
    return lives.reveal(what);
  }

  function exports(): readonly Export[] {
    const half = choice.looked.value?.half;
    const name = half?.name ?? "memory";
    return [...lives.exports(`${name}-memory`), ...(half?.memory?.pool ? pool.exports(`${name}-pool`) : [])];
  }

  function render(looked: Looked | null): void {
    const half = looked?.half;
    const made = (half?.buffers ?? []).filter(each => each.kind !== "input" && each.kind !== "constant");
    const there = half?.memory || made.length > 0;
    empty.hidden = !!there;
    body.hidden = !there;
    if (!looked || !half || !there) {
      fill(empty, h("p", whyNone("memory plan", context.looked.value)));
      return;
    }
    const columns = columnsOf(half);
    saved.show(looked.compile);
    saved.element.hidden = !looked.compile.saved?.length;
    if (!half.memory) {
      headline.textContent = `The record has no memory plan of ${half.name}.`;
      lives.table.show(made,
        columns.filter(each => ["Value", "Buffer", "Type", "Why a buffer"].includes(each.name)));
      lives.show(() => null, false);
      pool.element.hidden = legendBelow.hidden = true;
      return;
    }
    legendBelow.hidden = false;
    const plan = planOf(half);
    const few = Math.max(made.length, plan.steps) <= MOST_DRAWN;
    fill(headline, ...summary(half, plan), few ? "" : " Too many to draw.");
    lives.table.show((half.buffers ?? []).filter(each => each.where), columns);
    lives.show((width, linked) => drawLives(half, plan, looked.compile.id, called, width, linked),
      plan.places.length > 0 && few);
    const pooled = plan.places.filter(each => each.kind === "pool").flatMap(each => each.lives);
    pool.element.hidden = pooled.length === 0;
    pool.table.show(pooled, [OFFSET,
      ...columns.filter(each => ["Value", "Buffer", "Size", "Alive", "Why there"].includes(each.name))]);
    pool.show((width, linked) => drawPool(half, plan, looked.compile.id, called, width, linked), few);
  }

  function summary(half: HalfData, plan: Plan): string[] {
    const found = half.memory;
    if (!found) return [];
    const { peak_before: before, peak_after: after, pool } = found;
    const sentences = [`Peak ${bytes(after)} (${bytes(before)} without reuse).`];
    if (pool > 0)
      sentences.push(
        ` The pool of ${bytes(pool)} is one allocation, kept for the whole `
          + `call${after > before ? ": it raises the peak, but saves allocations" : ""}.`);
    if (plan.measured.length > 0)
      sentences.push(` The measured peak of one run was ${bytes(Math.max(...plan.measured))} (dotted).`);
    if (plan.registers.length > 0)
      sentences.push(` ${count(plan.registers.length, "buffer")} only in registers: see the table.`);
    const drawn = [Math.max(0, ...plan.before), Math.max(0, ...plan.after)];
    if (drawn[0] !== before || drawn[1] !== after)
      sentences.push(
        ` (Drawn by the sizes in the record, which give ${bytes(drawn[0] ?? 0)} and ${bytes(drawn[1] ?? 0)}.)`);
    return sentences;
  }

  function columnsOf(half: HalfData): TableColumn<BufferData>[] {
    const items = half.schedule?.items ?? [];
    const byName = new Map(half.buffers?.map(each => [each.name, called(each)]));
    const step = (at: number | undefined) => items[at ?? 0]?.id ?? "returned";
    const place = (each: BufferData) => {
      switch (each.where) {
        case "pool": return `pool + ${each.offset ?? 0}`;
        case "reuse": return `in that of ${byName.get(each.of ?? "") ?? each.of}`;
        case "own": return "own tensor";
        case "none": return "registers";
        default: return each.where ?? "";
      }
    };
    return [
      { name: "Value", text: called, order: each => each.name },
      codes("Buffer", each => each.name),
      codes("Type", each => each.type),
      figure("Size", each => each.bytes ?? 0, bytes),
      { name: "Place", text: place, order: place },
      {
        name: "Alive",
        text: each => (each.first === each.last ? step(each.first) : `${step(each.first)} – ${step(each.last)}`),
        order: each => each.first ?? 0,
      },
      reasonColumn("Why a buffer", each => each.why),
      reasonColumn("Why there", each => each.where_why),
    ];
  }

  function reasonColumn(name: string, of: (each: BufferData) => BufferData["why"]): TableColumn<BufferData> {
    return {
      name, text: each => reasonText(of(each)), order: each => of(each)?.title ?? null,
      cell: each => {
        const why = of(each);
        return why ? reasonLink(why, context) : "";
      },
    };
  }

  return { reveal, exports, dispose };
}

const OFFSET: TableColumn<BufferData> = {
  name: "Offset", numeric: true, text: each => (each.where === "pool" ? String(each.offset ?? 0) : `in ${each.of}`),
  order: each => (each.where === "pool" ? (each.offset ?? 0) : null),
};

function legend(): HTMLElement {
  const line = (name: string) => sample(svg("path", { class: name, d: "M1 6H21" }));
  return h(
    "div.ex-legend", ...Object.values(LOOKS).map(legendEntry),
    h("span", "↪ reuses the memory of the buffer before it"),
    h("span", line("ex-memory-before"), "separate memory for each buffer"),
    h("span", line("ex-memory-after"), "as planned"),
  );
}
