// This compile beside another: one of this record, or one of a record from a file.

import { DiffView, type Version } from "../diff/view";
import { button, fill, h, on } from "../dom";
import type { Context, Pane } from "../pane";
import type { CompileData } from "../record";
import { compilePairs, inOrder } from "../diff/compare";
import { ends, onChange } from "../signal";
import { openedRecord } from "../read";
import { compileName } from "../stages";

const BEFORE = "before the edit";
let opened = 0;

export function diff(into: HTMLElement, context: Context): Pane {
  const name = `ex-diff${++opened}`;
  const other = h("select.ex-select", { "aria-label": "Compare with" });
  const compared = h("label", "Compare with ", other);
  const headline = h("span");
  const body = h("div.ex-body-text");
  /** Records from files. */
  let loaded: Version[] = [];
  let choices: readonly (readonly [label: string, version: Version, compile: CompileData])[] = [];
  let chosen = "";
  let view: DiffView | null = null;
  const file =
    h("input.ex-hidden", { type: "file", accept: ".json,.gz", "aria-label": "A record's file", tabindex: -1 });
  const open = button("ex-button", "Open a record…", () => file.click());
  into.append(h("div.ex-pane", h("div.ex-bar", compared, headline, open, file), body));
  const wishes = { mode: context.setting<string>("mode", into.clientWidth < 700 ? "unified" : "split"),
    folded: context.setting<boolean>("folded", false) };
  on(other, "change", () => {
    chosen = other.value;
    render();
  });
  on(file, "change", () => void load(file.files?.[0]));
  const dispose = ends(
    context.edits.before.watch(record => {
      loaded = loaded.filter(each => each.name !== BEFORE);
      if (record) compare({ name: BEFORE, record });
      render();
    }),
    onChange(context.model.record, render), onChange(context.compile, render),
    () => view?.dispose(),
  );

  async function load(file: File | undefined): Promise<void> {
    if (!file) return;
    try {
      const record = await openedRecord(file);
      compare({ name: `${record.title} (${file.name})`, record });
      render();
    } catch (error) {
      headline.textContent =
        `${file.name} could not be opened: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  function compare(version: Version): void {
    loaded = [...loaded, version];
    const [first] = compilePairs(version.record, context.model.record.value);
    chosen = `${loaded.length}/${first?.before?.id ?? ""}`;
  }

  function render(): void {
    const record = context.model.record.value;
    const own = context.looked.value;
    const versions: Version[] = [{ name: record.title, record }, ...loaded];
    choices = versions.flatMap((version, n) =>
      version.record.compiles.filter(each => each !== own).map(each => [`${n}/${each.id}`, version, each] as const));
    fill(other, ...versions.map((version, n) =>
      h("optgroup", { label: n === 0 ? "this record" : version.name },
        ...choices.filter(([, of]) => of === version).map(([value, , each]) =>
          h("option", { value }, `${compileName(each)}${each.engine === "stock" ? " (stock)" : ""}`)))));
    if (!choices.some(([label]) => label === chosen)) chosen = choices[0]?.[0] ?? "";
    other.value = chosen;
    compared.hidden = choices.length === 0;
    view?.dispose();
    view = null;
    const [, version, compile] = choices.find(([label]) => label === chosen) ?? [];
    if (!own || !version || !compile) {
      headline.textContent =
        own ? "This record has one compile: open another record to compare it with." : "There is no compile yet.";
      fill(body);
      return;
    }
    const pair = inOrder(record, own, compile);
    headline.textContent = `from ${compileName(pair.before)} to ${compileName(pair.after)}`;
    const after = named({ name: record.title, record }, pair.after);
    view = DiffView(name, named(version, pair.before), after, pair, wishes);
    fill(body, view.element);
  }

  return { reveal: () => false, exports: () => view?.exports() ?? [], dispose };
}

function named(version: Version, compile: CompileData): Version {
  return { ...version, name: `${version.name}: ${compile.id}${compile.engine === "stock" ? " (stock)" : ""}` };
}
