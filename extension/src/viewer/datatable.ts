// A table whose columns can be sorted by, whose rows can stand for elements, and which can be saved as text.

import { button, fill, h } from "./dom";
import type { Key } from "./element";
import { Linked } from "./linked";
import type { Selection } from "./selection";
import { most } from "./collections";

export interface TableColumn<Row> {
  readonly name: string;
  /** The cell as text: what is saved, and what is shown where there is no `cell`. */
  text(row: Row): string;
  cell?(row: Row): Node | string;
  /** What it is sorted by; not at all where absent. null sorts last. */
  order?(row: Row): number | string | null;
  readonly numeric?: boolean;
  /** What it holds, where the glossary cannot know (help.ts): columns of a record's own names. */
  readonly title?: string;
}

/** A column of names out of a program, by which it can be sorted. */
export function codes<Row>(name: string, of: (row: Row) => string): TableColumn<Row> {
  return { name, text: of, cell: row => h("code", of(row)), order: of };
}

/** A column of numbers, by which it can be sorted; empty where there is none. */
export function figure<Row>(name: string, of: (row: Row) => number | null | undefined,
    write: (value: number) => string = String): TableColumn<Row> {
  return {
    name, numeric: true, order: row => of(row) ?? null,
    text: row => {
      const value = of(row);
      return value == null ? "" : write(value);
    },
  };
}

export interface TableRows<Row> {
  /** The elements that a row stands for: the first is selected by it. */
  keys?(row: Row): readonly Key[];
  chosen?(row: Row): void;
  /** A class for the row. */
  look?(row: Row): string;
}

/** Rows shown at first, and more at each wish. */
const SHOWN = 200;
const MORE = 1000;

/** Characters that a column of the table as text is padded to. */
const WIDEST = 200;

export function DataTable<Row>(
  caption: string, columns: readonly TableColumn<Row>[], selection: Selection, how: TableRows<Row> = {},
) {
  const head = h("tr");
  const body = h("tbody");
  const more = h("div.ex-more");
  let shownRows: readonly Row[] = [];
  let sorting: { readonly column: TableColumn<Row>; readonly down: boolean } | null = null;
  let limit = SHOWN;
  let rowOf = new Map<Element, Row>();
  let shownColumns = columns;
  const table = h("table.ex-table.ex-data", h("caption.ex-hidden", caption), h("thead", head), body);
  const element = h("div.ex-wide", table, more);
  const linked = Linked(element, selection, (_, mark) => {
    const row = rowOf.get(mark);
    if (row !== undefined) how.chosen?.(row);
  });

  /** Shows these rows, in the order that was chosen before. */
  function show(rows: readonly Row[], columns = shownColumns): void {
    shownRows = rows;
    shownColumns = columns;
    if (sorting && !columns.includes(sorting.column)) {
      const name = sorting.column.name;
      const column = columns.find(each => each.name === name);
      sorting = column ? { column, down: sorting.down } : null;
    }
    render();
  }

  function reveal(of: Key): boolean {
    const has = (row: Row) => how.keys?.(row).includes(of) ?? false;
    const at = shownRows.length > limit ? inOrder().findIndex(has) : -1;
    if (at >= limit && at < MORE) {
      limit = MORE;
      render();
    }
    return linked.reveal(of);
  }

  /** The table as text, its columns aligned. */
  function text(): string {
    const cells =
      [shownColumns.map(each => each.name), ...inOrder().map(row => shownColumns.map(each => each.text(row)))];
    const widths = shownColumns.map((_, n) => Math.min(most(cells.map(row => row[n]?.length ?? 0)), WIDEST));
    const line = (row: readonly string[]) =>
      row.map((cell, n) => (shownColumns[n]?.numeric ? cell.padStart(widths[n] ?? 0) : cell.padEnd(widths[n] ?? 0)))
        .join("  ").trimEnd();
    return [caption, "", ...cells.map(line), ""].join("\n");
  }

  function inOrder(): readonly Row[] {
    const order = sorting?.column.order;
    return sorting && order ? sortedBy(shownRows, order, sorting.down) : shownRows;
  }

  function render(): void {
    table.hidden = shownRows.length === 0;
    fill(head, ...shownColumns.map(each => heading(each)));
    const rows = inOrder();
    const shown = rows.slice(0, limit);
    linked.clear();
    rowOf = new Map();
    const focusPlace = placeOfFocus(body);
    fill(body, ...shown.map(row => rowElement(row)));
    focusPlace?.();
    fill(more);
    if (shown.length < rows.length) {
      const open = () => {
        limit += MORE;
        render();
      };
      const left = rows.length - shown.length;
      more.append(button("ex-link", left <= MORE ? `Show all ${rows.length}` : `Show ${MORE} more of ${rows.length}`,
        open));
    }
  }

  function rowElement(row: Row): HTMLElement {
    const cells = shownColumns.map(
      each => h("td", { class: each.numeric ? "ex-number" : undefined }, each.cell?.(row) ?? each.text(row)));
    const element = h("tr", { class: how.look?.(row) || undefined }, ...cells);
    const [own, ...also] = how.keys?.(row) ?? [];
    if (own !== undefined) linked.add(element, own, ...also);
    rowOf.set(element, row);
    return element;
  }

  function heading(column: TableColumn<Row>): HTMLElement {
    const sorted = sorting?.column === column ? sorting : null;
    const attributes = { scope: "col", class: column.numeric ? "ex-number" : undefined, title: column.title };
    if (!column.order) return h("th", attributes, column.name);
    const sort = () => {
      sorting = sorted ? (sorted.down === !!column.numeric ? { column, down: !sorted.down } : null)
        : { column, down: !!column.numeric };
      render();
      head.querySelectorAll("button")[shownColumns.filter(each => each.order).indexOf(column)]?.focus();
    };
    const mark = sorted ? (sorted.down ? " ▾" : " ▴") : "";
    return h(
      "th", { ...attributes, "aria-sort": sorted ? (sorted.down ? "descending" : "ascending") : "none" },
      button("ex-sort", column.name + mark, sort),
    );
  }

  return { element, show, reveal, text, dispose: linked.dispose, get isEmpty() { return shownRows.length === 0; } };
}

export type DataTable<Row> = ReturnType<typeof DataTable<Row>>;

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
