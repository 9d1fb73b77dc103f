// The search field: a combobox whose list lies over the panes.

import { aria, fill, h, on, taken } from "./dom";
import { count, grouped } from "./format";
import { sum } from "./collections";
import { below } from "./menu";
import { type SearchEntry, Search } from "./search";
import type { RecordData } from "./record";
import type { Readable } from "./signal";

export function SearchBox(name: string, record: Readable<RecordData>, chosen: (entry: SearchEntry) => void) {
  let search: Search | null = null;
  let shownOptions: readonly (readonly [HTMLElement, SearchEntry])[] = [];
  let at = -1;
  const dispose = () => unwatch();
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

  return { element, focus, dispose };
}

export type SearchBox = ReturnType<typeof SearchBox>;
