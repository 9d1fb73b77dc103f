// This compile beside another: one of this record, or one of a record from a file.

import { DiffView, type Version } from "../diff/view";
import { button, fill, h, on } from "../dom";
import { openedRecord } from "../opened";
import type { Context, Pane, PaneKind } from "../pane";
import type { CompileData } from "../record";
import { compilePairs } from "../diff/compare";
import { TITLES } from "./titles";

export const diff: PaneKind = {
  id: "diff",
  title: TITLES.diff,
  open: (into, context) => new Diff(into, context),
};

const BEFORE = "before the edit";
let opened = 0;

class Diff implements Pane {
  readonly #name = `ex-diff${++opened}`;
  readonly #other = h("select.ex-select", { "aria-label": "Compare with" });
  readonly #from = h("label", "From ", this.#other);
  readonly #said = h("span");
  readonly #body = h("div.ex-body-text");
  readonly #wishes;
  readonly #disposers: (() => void)[];
  /** Records from files. */
  #loaded: Version[] = [];
  #choices: readonly (readonly [label: string, version: Version, compile: CompileData])[] = [];
  #chosen = "";
  #view: DiffView | null = null;
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    const file = h("input.ex-hidden", { type: "file", accept: ".json,.gz", "aria-label": "A record's file", tabindex: -1 });
    const open = button("ex-button", "Open a record…", () => file.click());
    into.append(h("div.ex-pane", h("div.ex-bar", this.#from, this.#said, open, file), this.#body));
    this.#wishes = { mode: context.setting<string>("mode", into.clientWidth < 700 ? "unified" : "split"), folded: context.setting<boolean>("folded", false) };
    on(this.#other, "change", () => {
      this.#chosen = this.#other.value;
      this.#render();
    });
    on(file, "change", () => void this.#load(file.files?.[0]));
    this.#disposers = [
      context.edits.before.watch(record => {
        this.#loaded = this.#loaded.filter(each => each.name !== BEFORE);
        if (record) this.#compare({ name: BEFORE, record });
        this.#render();
      }),
      context.model.record.watch(() => this.#render()), context.compile.watch(() => this.#render()),
    ];
  }

  reveal(): boolean {
    return false;
  }

  exports() {
    return this.#view?.exports() ?? [];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#view?.dispose();
  }

  async #load(file: File | undefined): Promise<void> {
    if (!file) return;
    try {
      const record = await openedRecord(file);
      this.#compare({ name: `${record.title} (${file.name})`, record });
      this.#render();
    } catch (error) {
      this.#said.textContent = `${file.name} could not be opened: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  #compare(version: Version): void {
    this.#loaded = [...this.#loaded, version];
    const [first] = compilePairs(version.record, this.#context.model.record.value);
    this.#chosen = `${this.#loaded.length}/${first?.before?.id ?? ""}`;
  }

  #render(): void {
    const record = this.#context.model.record.value;
    const own = this.#context.looked.value;
    const versions: Version[] = [{ name: record.title, record }, ...this.#loaded];
    this.#choices = versions.flatMap((version, n) =>
      version.record.compiles.filter(each => each !== own).map(each => [`${n}/${each.id}`, version, each] as const));
    fill(this.#other, ...versions.map((version, n) =>
      h("optgroup", { label: n === 0 ? "this record" : version.name },
        ...this.#choices.filter(([, of]) => of === version).map(([value, , each]) => h("option", { value }, `${each.id} ${each.title}${each.engine === "stock" ? " (stock)" : ""}`)))));
    if (!this.#choices.some(([label]) => label === this.#chosen)) this.#chosen = this.#choices[0]?.[0] ?? "";
    this.#other.value = this.#chosen;
    this.#from.hidden = this.#choices.length === 0;
    this.#view?.dispose();
    this.#view = null;
    const [, version, compile] = this.#choices.find(([label]) => label === this.#chosen) ?? [];
    if (!own || !version || !compile) {
      this.#said.textContent = own ? "This record has one compile: open another record to compare it with." : "There is no compile yet.";
      fill(this.#body);
      return;
    }
    this.#said.textContent = `to ${own.id} ${own.title}`;
    const [before, after] = [named(version, compile), named({ name: record.title, record }, own)];
    this.#view = new DiffView(this.#name, before, after, { before: compile, after: own }, this.#wishes);
    fill(this.#body, this.#view.element);
  }
}

function named(version: Version, compile: CompileData): Version {
  return { ...version, name: `${version.name}: ${compile.id}${compile.engine === "stock" ? " (stock)" : ""}` };
}
