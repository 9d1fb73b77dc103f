// Call by call: which compile served it, what changed where it was compiled again, and what would stop that.

import { type TableColumn, DataTable } from "../datatable";
import { button, h } from "../dom";
import { key } from "../element";
import type { Context, Pane } from "../pane";
import type { ChangeData, ServedData } from "../record";
import { at } from "./breaks";

export function recompiles(into: HTMLElement, context: Context): Pane {
  const compile = (id: string) => h("span", button("ex-link", id, () => (context.compile.value = id)), " ");
  const changeText = (of: ChangeData) => (of.also ? "also " : "") + of.said;
  const place = ({ span }: ChangeData) => (span ? ` at ${context.model.files.value.place(span.file, span.line)}` : "");
  const change = (of: ChangeData) => h(
    "div.ex-expression", h("div", changeText(of), ...at(context, of.span), " ",
      of.guard ? button("ex-link", "guard", () => context.show("guards", key(of.of ?? "", of.guard ?? ""))) : ""),
    of.stops ? h("div.ex-how", `To avoid it: ${of.stops}`) : "",
  );
  const first = (row: ServedData) => (!row.made?.length
    ? "" : row.first > 1 ? "reached for the first time" : "first call");
  const name: TableColumn<ServedData> = { name: "Function", text: row => row.function };
  const columns: TableColumn<ServedData>[] = [
    { name: "Call",
      text: ({ first, last, note = "" }) => `${first === last ? first || "" : `${first} to ${last}`} ${note}` },
    {
      name: "Compile", text: row => `${row.made?.length ? "compiled" : "reused"} ${row.compiles.join(", ")}`,
      cell: row => h("div", row.made?.length
        ? "compiled " : row.compiles.length ? "reused " : "no compiled graph", ...row.compiles.map(compile)),
    },
    {
      name: "Reason",
      text: row =>
        row.changes?.map(of => `${changeText(of)}${place(of)}${of.stops ? ` (to stop it: ${of.stops})` : ""}`)
          .join("; ") || first(row),
      cell: row => (row.changes?.length ? h("div", ...row.changes.map(change)) : first(row)),
    },
  ];
  const table = DataTable<ServedData>("Calls and the compiles that they used", [], context.selection);
  const nothing = h("div.ex-empty", h("p", "Nothing was compiled more than once."));
  const body = h("div.ex-pad", table.element);
  into.append(nothing, body);
  const end = context.model.record.watch(({ history = [] }) => {
    nothing.hidden = history.length > 0;
    body.hidden = !history.length;
    table.show(history, new Set(history.map(row => row.function)).size > 1 ? [name, ...columns] : columns);
  });
  return {
    reveal: () => false,
    exports: () => (body.hidden ? [] : [{ kind: "txt", name: "recompiles", make: async () => table.text() }]),
    dispose: () => {
      end();
      table.dispose();
    },
  };
}
