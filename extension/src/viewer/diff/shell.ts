// Two records in one viewer: which compiles are compared, and their difference.

import { h } from "../dom";
import { phrase } from "../format";
import type { Host, Json } from "../host";
import { menuButton } from "../menu";
import type { RecordData } from "../record";
import { type Dispose, onChange, Signal } from "../signal";
import { notesOf } from "../status";
import { type CompilePair, compilePairs } from "./compare";
import { DiffView } from "./view";

const NARROW = 720;
let mounted = 0;

export class DiffShell {
  readonly #disposers: Dispose[] = [];
  #view: DiffView | null = null;
  readonly #root: HTMLElement;
  readonly #host: Host;

  /** `first` says which compiles to begin with; the first ones where it is absent, or says so of none. */
  constructor(root: HTMLElement, before: RecordData, after: RecordData, host: Host, first?: (pair: CompilePair) => boolean) {
    this.#root = root;
    this.#host = host;
    const name = `ex-diff-page${++mounted}`;
    const pairs = compilePairs(before, after);
    const wishes = { mode: this.#kept<string>("diff.mode", root.clientWidth < NARROW ? "unified" : "split"), folded: this.#kept<boolean>("diff.folded", false) };
    const chooser = h("select.ex-select", { "aria-label": "Compiles compared" }, ...pairs.map((pair, n) =>
      h("option", { value: n }, `${pair.before ? `${pair.before.id} ${pair.before.title}` : "nothing"} → ${pair.after ? `${pair.after.id} ${pair.after.title}` : "nothing"}`)));
    const [old, fresh] = before.title === after.title ? [`${before.title} (before)`, `${after.title} (after)`] : [before.title, after.title];
    const badge = (record: RecordData) => h("span.ex-badge", phrase([record.engine, record.target], " · "));
    const header = h(
      "header.ex-header",
      h("div.ex-title", h("h1", `${old} → ${fresh}`), badge(before), badge(after)), pairs.length > 1 ? chooser : null,
      h("div.ex-tools", menuButton("Save as a file", "Save", () => (this.#view?.exports() ?? []).map(each => ({
        label: `${each.name}.${each.kind}`,
        run: () => void each.make().then(contents => host.download(`${each.name}.${each.kind}`, "text/plain", contents)),
      })))),
    );
    const body = h("div.ex-body");
    root.replaceChildren(header, h("div.ex-status", ...notesOf(before, old), ...notesOf(after, fresh)), body);
    const show = () => {
      this.#view?.dispose();
      const pair = pairs[Number(chooser.value || 0)] ?? {};
      this.#view = new DiffView(name, { name: old, record: before }, { name: fresh, record: after }, pair, wishes);
      body.replaceChildren(this.#view.element);
    };
    chooser.addEventListener("change", show);
    if (first) chooser.value = String(Math.max(0, pairs.findIndex(first)));
    show();
    this.#disposers.push(host.dark.watch(dark => root.classList.toggle("ex-dark", dark)), () => this.#view?.dispose());
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#root.replaceChildren();
  }

  #kept<T extends Json>(name: string, initial: T): Signal<T> {
    const found = this.#host.recall(name);
    const signal = new Signal<T>(typeof found === typeof initial ? (found as T) : initial);
    this.#disposers.push(onChange(signal, value => this.#host.remember(name, value)));
    return signal;
  }
}
