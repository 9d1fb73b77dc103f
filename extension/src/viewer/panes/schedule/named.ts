// What a person calls an operation of the schedule: what it computes, and the lines that ask for it.

import { key } from "../../element";
import { phrase } from "../../format";
import type { Model } from "../../model";
import type { OperationData } from "../../record";
import { isLibrary, place } from "../../sources";

export interface OperationName {
  /** "sum · line 6", or the operation's id where nothing of the graph became it. */
  readonly own: string;
  /** What else it computes as it goes, without a buffer of its own. */
  readonly inside: readonly string[];
}

export function named(operation: Pick<OperationData, "id" | "origins">, compile: string, model: Model): OperationName {
  const main = model.record.value.sources.find(each => !isLibrary(each.file));
  const where = (node: string) => [...new Set(model.links.value.sourceLines(key(compile, node)))].map(each => {
    const { file, line } = place(each);
    return file === main?.file ? `line ${line}` : model.files.value.place(file, line);
  });
  const nodes = operation.origins.filter(each => !each.startsWith("synthetic:"));
  const [own = operation.id, ...inside] =
    nodes.map(each => phrase([each.replace(/^\w+\.|_\d+$/g, ""), where(each).join(", ")], " · "));
  return { own, inside: [...new Set(inside)] };
}
