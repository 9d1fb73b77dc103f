// What each kernel wrote in one call, in order, beside what eager computes.

import { codes, DataTable } from "../datatable";
import { button, fill, h } from "../dom";
import { key, type Key } from "../element";
import { fileName } from "../filename";
import { count, phrase } from "../format";
import { HalfChoice } from "../halfchoice";
import type { Context, Pane, PaneKind } from "../pane";
import type { WrittenData } from "../record";
import { type Facts, found, Walk } from "../walk";
import { writtenError } from "./timing/figures";
import { TITLES } from "./titles";

export const values: PaneKind = {
  id: "values",
  title: TITLES.values,
  open: (into, context) => new Values(into, context),
};

class Values implements Pane {
  readonly choice: HalfChoice;
  readonly walk: Walk;
  readonly #table: DataTable<WrittenData>;
  readonly #card = h("div.ex-step", { role: "region", "aria-label": "What was written", tabindex: 0 });
  readonly #end: (() => void)[];
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    this.choice = new HalfChoice(context);
    this.#table = new DataTable<WrittenData>("What kernels wrote", [
      { name: "Step", numeric: true, text: row => `${this.#rows.indexOf(row)}` },
      codes("Kernel", row => row.kernel), codes("Node", row => row.node ?? ""),
      { name: "Beside eager", text: said }, { name: "Ours", text: row => row.ours }, { name: "Eager", text: row => row.eager ?? "" },
    ], context.selection, { keys: row => [this.#key(row), key(context.compile.value, row.kernel)], look: row => (row.differs || row.nonfinite ? "ex-no" : "ex-yes") });
    const nothing = h("div.ex-empty", h("p", "One call was not run kernel by kernel: explore it with values=True (%%explore --values). It is, where results differ from eager."));
    const pane = h("div.ex-pane");
    this.walk = new Walk(pane, context.setting<string>("breakpoint", ""), {
      name: "Write", example: "kernel=k0 error>0.001",
      moves: { n: ["nan:", "not finite"], d: ["differs:", "different from eager"] },
      find: query => found(query, FACTS, this.#rows),
      go: to => {
        context.step.value = -1;
        context.selection.pinned.value = this.#key(this.#rows[to]!);
        this.#table.reveal(context.selection.pinned.value);
        this.#at(to);
      },
    });
    pane.append(h("div.ex-bar", this.choice.element, this.walk.element), h("div.ex-body-text.ex-g-scroll", this.#table.element), this.#card);
    into.append(nothing, pane);
    const follow = () => {
      const pinned = context.selection.pinned.value;
      const to = this.#rows.findIndex(row => this.#key(row) === pinned);
      if (to >= 0 && (this.walk.at < 0 || this.#key(this.#rows[this.walk.at]!) !== pinned)) this.#at(to);
    };
    this.#end = [
      this.choice.looked.watch(() => {
        const rows = this.#rows;
        nothing.hidden = !!rows.length;
        pane.hidden = !rows.length;
        this.#table.show(rows);
        this.#at(-1);
        this.walk.show(rows.length - 1);
        follow();
      }),
      context.selection.pinned.watch(follow),
    ];
  }

  reveal(what: Key): boolean {
    this.choice.showWith(half => half.written?.some(row => this.#key(row) === what) ?? false);
    return this.#table.reveal(what);
  }

  exports() {
    return this.#rows.length ? [{ kind: "txt" as const, name: fileName(`${this.choice.looked.value?.half.name} values`), make: async () => this.#table.text() }] : [];
  }

  dispose(): void {
    this.#end.forEach(end => end());
    this.walk.end();
    this.choice.dispose();
    this.#table.dispose();
  }

  get #rows(): readonly WrittenData[] {
    return this.choice.looked.value?.half.written ?? [];
  }

  /** A node is written once; what has none stands for its kernel. */
  #key(row: WrittenData): Key {
    return key(this.#context.compile.value, row.node || row.kernel);
  }

  #at(step: number): void {
    this.walk.at = step;
    const row = this.#rows[step];
    this.#card.hidden = !row;
    if (!row) return;
    const go = (pane: string, id: string) => button("ex-link", id, () => this.#context.show(pane, key(this.#context.compile.value, id)));
    const fact = (name: string, text = "") => (text ? [h("dt", name), h("dd", h("code", text))] : []);
    fill(this.#card,
      h("div", go("code", row.kernel), ` writes ${row.buffer}`, ...(row.node ? [": the value of ", go("graphs", row.node)] : [])),
      h("div", h("strong", said(row)), ...(row.began ? [". In eager this begins with ", go("graphs", row.began)] : [])),
      h("dl.ex-facts.ex-beside", ...fact("Ours", row.ours), ...fact("Eager", row.eager)),
    );
  }
}

const FACTS: Facts<WrittenData> = {
  kernel: row => row.kernel, node: row => row.node, buffer: row => row.buffer, ours: row => row.ours, eager: row => row.eager,
  differs: row => row.differs && "yes", nan: row => (row.nonfinite ? row.began || row.buffer : ""),
  step: (_, at) => at, error: row => row.error, nonfinite: row => row.nonfinite ?? 0,
};

function said({ node, differs, error, nonfinite }: WrittenData): string {
  const off = typeof error === "number" && error ? ` (off by up to ${writtenError(error)})` : "";
  return phrase([
    nonfinite && `${count(nonfinite, "element")} NaN or infinite`,
    !node ? "not compared: no node has this value" : differs ? `differs${off}` : off ? `within tolerance${off}` : "the same",
  ], "; ");
}
