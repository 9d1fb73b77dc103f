// What each kernel wrote in one call, in order, beside what eager computes.

import { codes, DataTable } from "../datatable";
import { button, fill, h } from "../dom";
import { key, type Key } from "../element";
import { count, fileName, phrase } from "../format";
import { HalfChoice, type Context, type Pane } from "../pane";
import type { WrittenData } from "../record";
import { type StepFacts, found, Walk } from "../walk";
import { writtenError } from "./timing/figures";
import { ends } from "../signal";

export function values(into: HTMLElement, context: Context): Pane {
  const card = h("div.ex-step", { role: "region", "aria-label": "What was written", tabindex: 0 });
  const written = (): readonly WrittenData[] => choice.looked.value?.half.written ?? [];
  /** A node is written once; what has none stands for its kernel. */
  const keyOf = (row: WrittenData): Key => key(context.compile.value, row.node || row.kernel);
  const choice = HalfChoice(context);
  const table = DataTable<WrittenData>("What kernels wrote", [
    { name: "Step", numeric: true, text: row => `${written().indexOf(row)}` },
    codes("Kernel", row => row.kernel), codes("Node", row => row.node ?? ""),
    { name: "Compared with eager", text: writtenText }, { name: "Compiled", text: row => row.ours },
    { name: "Eager", text: row => row.eager ?? "" },
  ], context.selection, { keys: row => [keyOf(row), key(context.compile.value, row.kernel)],
    look: row => (row.differs || row.nonfinite ? "ex-no" : "ex-yes") });
  const nothing =
    h("div.ex-empty", h("p", "No call was run kernel by kernel: explore it with values=True (%%explore --values)."));
  const pane = h("div.ex-pane");
  const walk = Walk(pane, context.setting<string>("breakpoint", ""), {
    name: "Write", example: "kernel=k0 error>0.001",
    moves: { n: ["nan:", "not finite"], d: ["differs:", "different from eager"] },
    find: query => found(query, FACTS, written()),
    go: to => {
      context.step.value = -1;
      context.selection.pinned.value = keyOf(written()[to]!);
      table.reveal(context.selection.pinned.value);
      stand(to);
    },
  });
  pane.append(h("div.ex-bar", choice.element, walk.element), h("div.ex-body-text.ex-g-scroll", table.element), card);
  into.append(nothing, pane);
  const follow = () => {
    const pinned = context.selection.pinned.value;
    const to = written().findIndex(row => keyOf(row) === pinned);
    if (to >= 0 && (walk.at < 0 || keyOf(written()[walk.at]!) !== pinned)) stand(to);
  };
  const dispose = ends(
    choice.looked.watch(() => {
      const rows = written();
      nothing.hidden = !!rows.length;
      pane.hidden = !rows.length;
      table.show(rows);
      stand(-1);
      walk.show(rows.length - 1);
      follow();
    }),
    context.selection.pinned.watch(follow),
    walk.end, choice, table,
  );

  function reveal(what: Key): boolean {
    choice.showWith(half => half.written?.some(row => keyOf(row) === what) ?? false);
    return table.reveal(what);
  }

  function exports() {
    return written().length
      ? [{ kind: "txt" as const, name: fileName(`${choice.looked.value?.half.name} values`),
        make: async () => table.text() }] : [];
  }

  function stand(step: number): void {
    walk.at = step;
    const row = written()[step];
    card.hidden = !row;
    if (!row) return;
    const go = (pane: string, id: string) =>
      button("ex-link", id, () => context.show(pane, key(context.compile.value, id)));
    const fact = (name: string, text = "") => (text ? [h("dt", name), h("dd", h("code", text))] : []);
    fill(card,
      h("div", go("code", row.kernel), ` writes ${row.buffer}`,
        ...(row.node ? [": the value of ", go("graphs", row.node)] : [])),
      h("div", h("strong", writtenText(row)),
        ...(row.began ? [". In eager this begins with ", go("graphs", row.began)] : [])),
      h("dl.ex-facts.ex-beside", ...fact("Ours", row.ours), ...fact("Eager", row.eager)),
    );
  }

  return { choice, walk, reveal, exports, dispose };
}

const FACTS: StepFacts<WrittenData> = {
  kernel: row => row.kernel, node: row => row.node, buffer: row => row.buffer, ours: row => row.ours,
  eager: row => row.eager,
  differs: row => row.differs && "yes", nan: row => (row.nonfinite ? row.began || row.buffer : ""),
  step: (_, at) => at, error: row => row.error, nonfinite: row => row.nonfinite ?? 0,
};

function writtenText({ node, differs, error, nonfinite }: WrittenData): string {
  const off = typeof error === "number" && error ? ` (off by up to ${writtenError(error)})` : "";
  return phrase([
    nonfinite && `${count(nonfinite, "element")} NaN or infinite`,
    !node ? "not compared: no node has this value"
      : differs ? `differs${off}` : off ? `within tolerance${off}` : "the same",
  ], "; ");
}
