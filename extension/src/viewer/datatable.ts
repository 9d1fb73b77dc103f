// A table whose columns can be sorted by, whose rows can stand for elements, and which can be saved as text.

import { button, fill, h } from "./dom";
import type { Key } from "./element";
import { Linked } from "./linked";
import type { Selection } from "./selection";
import { most } from "./gather";

export interface Column<Row> {
  readonly name: string;
  /** The cell as text: what is saved, and what is shown where there is no `cell`. */
  text(row: Row): string;
  cell?(row: Row): Node | string;
  /** What it is sorted by; not at all where absent. null sorts last. */
  order?(row: Row): number | string | null;
  readonly numeric?: boolean;
  readonly title?: string | undefined;
}

/** A column of names out of a program, by which it can be sorted. */
export function codes<Row>(name: string, of: (row: Row) => string): Column<Row> {
  return { name, text: of, cell: row => h("code", of(row)), order: of };
}

/** A column of numbers, by which it can be sorted; empty where there is none. */
export function figure<Row>(name: string, of: (row: Row) => number | null | undefined, write: (value: number) => string = String, title?: string): Column<Row> {
  return {
    name, title, numeric: true, order: row => of(row) ?? null,
    text: row => {
      const value = of(row);
      return value == null ? "" : write(value);
    },
  };
}

export interface Rows<Row> {
  /** The elements that a row stands for: the first is selected by it. */
  keys?(row: Row): readonly Key[];
  chosen?(row: Row): void;
  /** A class for the row. */
  look?(row: Row): string;
}

/** Rows shown at first, and more at each wish. */
const SHOWN = 200;
const MORE = 5000;

/** Characters that a column of the table as text is padded to. */
const WIDEST = 200;

export class DataTable<Row> {
  readonly element: HTMLElement;
  readonly #table: HTMLElement;
  readonly #head = h("tr");
  readonly #body = h("tbody");
  readonly #more = h("div.ex-more");
  readonly #linked: Linked;
  #rows: readonly Row[] = [];
  #sorted: { readonly column: Column<Row>; readonly down: boolean } | null = null;
  #shown = SHOWN;
  #rowOf = new Map<Element, Row>();
  readonly #caption: string;
  #columns: readonly Column<Row>[];
  readonly #how: Rows<Row>;

  constructor(caption: string, columns: readonly Column<Row>[], selection: Selection, how: Rows<Row> = {}) {
    this.#caption = caption;
    this.#columns = columns;
    this.#how = how;
    this.#table = h(
      "table.ex-table.ex-data", h("caption.ex-hidden", caption), h("thead", this.#head), this.#body,
    );
    this.element = h("div.ex-wide", this.#table, this.#more);
    this.#linked = new Linked(this.element, selection, (_, mark) => {
      const row = this.#rowOf.get(mark);
      if (row !== undefined) this.#how.chosen?.(row);
    });
  }

  get isEmpty(): boolean {
    return this.#rows.length === 0;
  }

  /** Shows these rows, in the order that was chosen before. */
  show(rows: readonly Row[], columns = this.#columns): void {
    this.#rows = rows;
    this.#columns = columns;
    if (this.#sorted && !columns.includes(this.#sorted.column)) {
      const name = this.#sorted.column.name;
      const column = columns.find(each => each.name === name);
      this.#sorted = column ? { column, down: this.#sorted.down } : null;
    }
    this.#render();
  }

  reveal(of: Key): boolean {
    const has = (row: Row) => this.#how.keys?.(row).includes(of) ?? false;
    const at = this.#rows.length > this.#shown ? this.#inOrder().findIndex(has) : -1;
    if (at >= this.#shown && at < MORE) {
      this.#shown = MORE;
      this.#render();
    }
    return this.#linked.reveal(of);
  }

  /** The table as text, its columns aligned. */
  text(): string {
    const cells = [this.#columns.map(each => each.name), ...this.#inOrder().map(row => this.#columns.map(each => each.text(row)))];
    const widths = this.#columns.map((_, n) => Math.min(most(cells.map(row => row[n]?.length ?? 0)), WIDEST));
    const line = (row: readonly string[]) =>
      row.map((cell, n) => (this.#columns[n]?.numeric ? cell.padStart(widths[n] ?? 0) : cell.padEnd(widths[n] ?? 0))).join("  ").trimEnd();
    return [this.#caption, "", ...cells.map(line), ""].join("\n");
  }

  dispose(): void {
    this.#linked.dispose();
  }

  #inOrder(): readonly Row[] {
    const order = this.#sorted?.column.order;
    return this.#sorted && order ? sortedBy(this.#rows, order, this.#sorted.down) : this.#rows;
  }

  #render(): void {
    this.#table.hidden = this.isEmpty;
    fill(this.#head, ...this.#columns.map(each => this.#heading(each)));
    const rows = this.#inOrder();
    const shown = rows.slice(0, this.#shown);
    this.#linked.clear();
    this.#rowOf = new Map();
    const held = placeOfFocus(this.#body);
    fill(this.#body, ...shown.map(row => this.#row(row)));
    held?.();
    fill(this.#more);
    if (shown.length < rows.length) {
      const open = () => {
        this.#shown += MORE;
        this.#render();
      };
      const left = rows.length - shown.length;
      this.#more.append(button("ex-link", left <= MORE ? `Show all ${rows.length}` : `Show ${MORE} more of ${rows.length}`, open));
    }
  }

  #row(row: Row): HTMLElement {
    const cells = this.#columns.map(each => h("td", { class: each.numeric ? "ex-number" : undefined }, each.cell?.(row) ?? each.text(row)));
    const element = h("tr", { class: this.#how.look?.(row) || undefined }, ...cells);
    const [own, ...also] = this.#how.keys?.(row) ?? [];
    if (own !== undefined) this.#linked.add(element, own, ...also);
    this.#rowOf.set(element, row);
    return element;
  }

  #heading(column: Column<Row>): HTMLElement {
    const sorted = this.#sorted?.column === column ? this.#sorted : null;
    const attributes = { scope: "col", class: column.numeric ? "ex-number" : undefined, title: column.title };
    if (!column.order) return h("th", attributes, column.name);
    const sort = () => {
      this.#sorted = sorted ? (sorted.down === !!column.numeric ? { column, down: !sorted.down } : null) : { column, down: !!column.numeric };
      this.#render();
      this.#head.querySelectorAll("button")[this.#columns.filter(each => each.order).indexOf(column)]?.focus();
    };
    const mark = sorted ? (sorted.down ? " ▾" : " ▴") : "";
    return h(
      "th", { ...attributes, "aria-sort": sorted ? (sorted.down ? "descending" : "ascending") : "none" },
      button("ex-sort", column.name + mark, sort),
    );
  }
}

const FOCUSABLE = "button, input, select, a";

/** Where the focus is in a table's body; what is given puts it there again after the rows were made anew. */
function placeOfFocus(body: HTMLElement): (() => void) | null {
  const focused = document.activeElement;
  const row = focused instanceof HTMLElement && body.contains(focused) ? focused.closest("tr") : null;
  if (!focused || !row) return null;
  const [at, control] = [[...body.children].indexOf(row), [...row.querySelectorAll(FOCUSABLE)].indexOf(focused)];
  return () => {
    const same = body.children[at];
    const target = control < 0 ? same : same?.querySelectorAll(FOCUSABLE)[control];
    if (target instanceof HTMLElement) target.focus({ preventScroll: true });
  };
}

/** The rows by what `order` gives, stable; those without come last, either way. */
export function sortedBy<Row>(rows: readonly Row[], order: (row: Row) => number | string | null, down: boolean): Row[] {
  const keyed = rows.map(row => [order(row), row] as const);
  const sign = down ? -1 : 1;
  return keyed
    .sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : a < b ? -sign : a > b ? sign : 0))
    .map(([, row]) => row);
}
