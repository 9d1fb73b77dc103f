// Eager, operation by operation: each one's way through the dispatcher, and its time.

import { DataTable, figure } from "../datatable";
import { h } from "../dom";
import { key } from "../element";
import { percent, phrase, seconds } from "../format";
import type { Selection } from "../selection";
import type { FileNames } from "../sources";
import type { MethodsData, OperationCallData } from "./data";

export function operationTable({ operations = [] }: MethodsData, selection: Selection,
    files: FileNames): DataTable<OperationCallData> {
  const total = operations.reduce((sum, each) => sum + each.seconds, 0);
  const table = DataTable<OperationCallData>("Eager's operations in the order in which they ran", [
    figure("#", each => operations.indexOf(each) + 1),
    { name: "operation", text: each => each.name, cell: each => h("code", each.name), order: each => each.name },
    figure("time", each => each.seconds, seconds),
    figure("share", each => (total ? each.seconds / total : null), percent),
    { name: "dispatch keys in order", text: wayText, cell: way },
    { name: "inside the kernel", text: inside },
    { name: "result", text: each => each.result, cell: each => h("code", each.result) },
    { name: "line", text: each => files.inText(each.where) },
  ], selection, { keys: each => (each.where ? [key("", each.where)] : []) });
  table.show(operations);
  return table;
}

const inside = ({ dtype, layout, device }: OperationCallData): string => phrase([dtype, layout, device], ", ");

function wayText({ steps }: OperationCallData): string {
  return steps.map(step => (step.does === "kernel" ? step.key : `(${step.key})`)).join(" → ");
}

function way({ steps }: OperationCallData): HTMLElement {
  const parts = steps.flatMap((step, n) => {
    const passes = step.does !== "kernel";
    const shown = h("span", { class: passes ? "ex-detail" : "ex-m-key", title: `${step.does}: ${step.place}` },
      passes ? `(${step.key})` : step.key);
    return n > 0 ? [" → ", shown] : [shown];
  });
  return h("span", ...parts);
}
