// Search over everything in a record that has a name or a line: a combobox whose list lies over the panes.

import { type Key, key } from "./element";
import { phrase, count, grouped } from "./format";
import type { CompileData, RecordData, TextData } from "./record";
import { FileNames } from "./sources";
import { halfName } from "./stages";
import { aria, fill, h, on, taken } from "./dom";
import { sum } from "./collections";
import { below } from "./overlays";
import type { Readable } from "./signal";

interface SearchEntry {
  /** The heading under which it is found. */
  readonly group: string;
  /** The pane that shows it; "" for the catalogue. */
  readonly pane: string;
  readonly what: Key;
  readonly label: string;
  /** What tells it from others of the same label. */
  readonly detail: string;
  /** What it is found by; its label where absent. */
  readonly sought?: string;
}

interface ResultGroup {
  readonly name: string;
  readonly entries: readonly SearchEntry[];
  /** How many were found, those not listed included. */
  readonly found: number;
}

export function Search(record: RecordData) {
  const entries = [...entriesOf(record)].map(entry => [(entry.sought ?? entry.label).toLowerCase(), entry] as const);

  /** What holds every word of the query, grouped, those first that begin with it; at most `most` of each group. */
  function find(query: string, most = 8): readonly ResultGroup[] {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return [];
    const groups = new Map<string, SearchEntry[]>();
    for (const [lowered, entry] of entries) {
      if (!words.every(word => lowered.includes(word))) continue;
      const group = groups.get(entry.group);
      if (group) group.push(entry);
      else groups.set(entry.group, [entry]);
    }
    const first = words[0] ?? "";
    const rank = (entry: SearchEntry) => (entry.label.toLowerCase().startsWith(first) ? 0 : 1);
    return [...groups].map(([name, found]) => {
      const ranked =
        found.map((entry, n) => [rank(entry), n, entry] as const).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      return { name, found: found.length, entries: ranked.slice(0, most).map(([, , entry]) => entry) };
    });
  }

  return { find };
}

export type Search = ReturnType<typeof Search>;

/** Everything that can be found, in the order of the chain. */
export function* entriesOf(record: RecordData): Iterable<SearchEntry> {
  const files = FileNames(record.sources);
  for (const { file, first_line, text } of record.sources) {
    for (const [n, line] of text.split("\n").entries()) {
      if (!line.trim()) continue;
      const number = first_line + n;
      yield { group: "Source", pane: "source", what: `|${file}:${number}`, label: line.trim(),
        detail: files.place(file, number) };
    }
  }
  for (const compile of record.compiles) yield* ofCompile(compile);
  for (const reason of record.reasons ?? []) {
    yield { group: "Reasons", pane: "", what: reason.code, label: reason.title, detail: reason.code,
      sought: `${reason.title} ${reason.code} ${reason.meaning}` };
  }
}

function* ofCompile(compile: CompileData): Iterable<SearchEntry> {
  const at = (id: string) => key(compile.id, id);
  const seen = new Set<string>();
  const fresh = (id: string) => !seen.has(id) && seen.add(id);
  for (const code of compile.codes ?? []) {
    for (const { id, op, arg } of code.instructions) {
      if (fresh(id)) yield { group: "Instructions", pane: "bytecode", what: at(id), label: `${op} ${arg}`.trim(),
        detail: `${code.name} (${code.role}) ${id}` };
    }
  }
  for (const each of compile.guards ?? []) {
    yield { group: "Guards", pane: "guards", what: at(each.id), label: each.expression, detail: compile.id };
  }
  for (const { why, instruction } of compile.breaks ?? []) {
    const detail = why.detail ?? "";
    yield { group: "Breaks", pane: "breaks", what: at(instruction), label: why.title, detail,
      sought: `${why.title} ${detail} ${why.code}` };
  }
  for (const stage of compile.stages ?? []) {
    for (const graph of [stage.graph, ...(stage.halves ?? [])]) {
      for (const node of graph?.nodes ?? []) {
        if (!fresh(node.id)) continue;
        const [label, detail] = [`${node.name} = ${node.target}`, `${node.type} ${node.module ?? ""}`.trim()];
        yield { group: "Nodes", pane: "graphs", what: at(node.id), label, detail, sought: `${label} ${detail}` };
      }
    }
  }
  for (const node of compile.eager_backward ?? []) {
    yield { group: "Nodes", pane: "graphs", what: at(node.id), label: node.name, detail: "eager autograd" };
  }
  for (const half of compile.halves ?? []) {
    const where = phrase([compile.id, halfName(compile, half.name)], " ");
    for (const each of half.operations ?? []) {
      yield { group: "Operations", pane: "schedule", what: at(each.id),
        label: `${each.id}: ${each.target || each.kind}`, detail: where };
    }
    for (const each of half.buffers ?? []) {
      yield { group: "Buffers", pane: "memory", what: at(each.name), label: each.name,
        detail: `${each.type} ${each.kind} ${where}`, sought: `${each.name} ${each.type}` };
    }
    for (const each of half.kernels ?? []) {
      yield { group: "Kernels", pane: "code", what: at(each.id), label: `${each.id} ${each.function}`,
        detail: `${each.language} ${where}` };
      yield* generated(compile, each.source, `${each.function} ${where}`);
      for (const [kind, text] of Object.entries(each.lowered ?? {}))
        yield* generated(compile, text, `${kind} of ${each.function} ${where}`);
    }
    yield* generated(compile, half.wrapper, `wrapper ${where}`);
  }
}

function* generated(compile: CompileData, text: TextData | null | undefined, where: string): Iterable<SearchEntry> {
  for (const [line, id] of text?.lines ?? []) {
    if (id && line.trim())
      yield { group: "Generated lines", pane: "code", what: key(compile.id, id), label: line.trim(), detail: where };
  }
}

export function SearchBox(name: string, record: Readable<RecordData>, chosen: (entry: SearchEntry) => void) {
  let search: Search | null = null;
  let shownOptions: readonly (readonly [HTMLElement, SearchEntry])[] = [];
  let at = -1;
  const input = h("input.ex-search", {
    type: "search", placeholder: "Search all panes  ( / )", role: "combobox", "aria-label": "Search all panes",
    "aria-expanded": "false", "aria-controls": `${name}-found`, "aria-autocomplete": "list", autocomplete: "off",
    spellcheck: "false",
  });
  const list = h("div.ex-found", { id: `${name}-found`, role: "listbox", popover: "manual", "aria-label": "Found" });
  const announced = h("span.ex-hidden", { role: "status" });
  const element = h("div.ex-searchbox", input, list, announced);
  const unwatch = record.watch(() => (search = null));
  on(input, "input", () => show(record.value));
  on(input, "focus", () => show(record.value));
  on(input, "blur", hide);
  on(input, "keydown", key);
  on(list, "pointerdown", event => event.preventDefault());

  function focus(): void {
    input.focus();
    input.select();
  }

  function show(record: RecordData): void {
    const query = input.value.trim();
    if (!query) return hide();
    search ??= Search(record);
    const groups = search.find(query);
    const options: (readonly [HTMLElement, SearchEntry])[] = [];
    const shown = groups.map(group => {
      const rows = group.entries.map(entry => {
        const row = h("div.ex-hit", { role: "option", id: `${name}-hit-${options.length}`, "aria-selected": "false" },
          h("span.ex-hit-label", entry.label), h("span.ex-hit-detail", entry.detail));
        on(row, "click", () => choose(entry));
        options.push([row, entry]);
        return row;
      });
      const more = group.found - rows.length;
      const head = `${group.name} (${grouped(group.found)}${more > 0 ? `, first ${rows.length}` : ""})`;
      return h("div", { role: "group", "aria-label": head }, h("div.ex-hit-head", { "aria-hidden": "true" }, head),
        ...rows);
    });
    const total = sum(groups, group => group.found);
    announced.textContent = total === 0 ? "Nothing found" : count(total, "hit");
    const nothing = h("div.ex-hint", { role: "option", "aria-disabled": "true", "aria-selected": "false" },
      `Nothing in this record contains “${query}”.`);
    fill(list, ...(total === 0 ? [nothing] : shown));
    shownOptions = options;
    at = -1;
    move(0);
    aria(input, "expanded", "true");
    if (!list.matches(":popover-open")) list.showPopover();
    below(list, input);
  }

  function hide(): void {
    aria(input, "expanded", "false");
    input.removeAttribute("aria-activedescendant");
    if (list.matches(":popover-open")) list.hidePopover();
  }

  function move(to: number): void {
    shownOptions[at]?.[0].setAttribute("aria-selected", "false");
    at = Math.max(0, Math.min(to, shownOptions.length - 1));
    const row = shownOptions[at]?.[0];
    if (!row) return;
    aria(row, "selected", "true");
    row.scrollIntoView({ block: "nearest" });
    aria(input, "activedescendant", row.id);
  }

  function choose(entry: SearchEntry): void {
    hide();
    chosen(entry);
  }

  function key(event: KeyboardEvent): void {
    const open = list.matches(":popover-open");
    if (event.key === "ArrowDown" && open) move(at + 1);
    else if (event.key === "ArrowUp" && open) move(at - 1);
    else if (event.key === "Enter" && open) {
      const entry = shownOptions[at]?.[1];
      if (entry) choose(entry);
    } else if (event.key === "Escape" && open) hide();
    else return;
    taken(event);
  }

  return { element, focus, dispose: unwatch };
}
