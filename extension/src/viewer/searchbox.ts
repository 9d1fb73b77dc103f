// The search field: a combobox whose list lies over the panes.

import { aria, fill, h, on, taken } from "./dom";
import { count } from "./format";
import { sum } from "./gather";
import { below } from "./menu";
import { type Entry, Search } from "./search";
import type { RecordData } from "./record";
import type { Readable } from "./signal";

export class SearchBox {
  readonly element: HTMLElement;
  readonly #input: HTMLInputElement;
  readonly #list: HTMLElement;
  readonly #said: HTMLElement;
  #search: Search | null = null;
  #options: readonly (readonly [HTMLElement, Entry])[] = [];
  #at = -1;
  readonly #unwatch: () => void;
  readonly #name: string;
  readonly #chosen: (entry: Entry) => void;

  constructor(name: string, record: Readable<RecordData>, chosen: (entry: Entry) => void) {
    this.#name = name;
    this.#chosen = chosen;
    this.#input = h("input.ex-search", {
      type: "search", placeholder: "Search all panes  ( / )", role: "combobox", "aria-label": "Search all panes",
      "aria-expanded": "false", "aria-controls": `${name}-found`, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
    });
    this.#list = h("div.ex-found", { id: `${name}-found`, role: "listbox", popover: "manual", "aria-label": "Found" });
    this.#said = h("span.ex-hidden", { role: "status" });
    this.element = h("div.ex-searchbox", this.#input, this.#list, this.#said);
    this.#unwatch = record.watch(() => (this.#search = null));
    on(this.#input, "input", () => this.#show(record.value));
    on(this.#input, "focus", () => this.#show(record.value));
    on(this.#input, "blur", () => this.#hide());
    on(this.#input, "keydown", event => this.#key(event));
    on(this.#list, "pointerdown", event => event.preventDefault());
  }

  focus(): void {
    this.#input.focus();
    this.#input.select();
  }

  dispose(): void {
    this.#unwatch();
  }

  #show(record: RecordData): void {
    const query = this.#input.value.trim();
    if (!query) return this.#hide();
    this.#search ??= new Search(record);
    const groups = this.#search.find(query);
    const options: (readonly [HTMLElement, Entry])[] = [];
    const shown = groups.map(group => {
      const rows = group.entries.map(entry => {
        const row = h("div.ex-hit", { role: "option", id: `${this.#name}-hit-${options.length}`, "aria-selected": "false" },
          h("span.ex-hit-label", entry.label), h("span.ex-hit-detail", entry.detail));
        on(row, "click", () => this.#choose(entry));
        options.push([row, entry]);
        return row;
      });
      const more = group.found - rows.length;
      const head = `${group.name} (${group.found.toLocaleString("en")}${more > 0 ? `, first ${rows.length}` : ""})`;
      return h("div", { role: "group", "aria-label": head }, h("div.ex-hit-head", { "aria-hidden": "true" }, head), ...rows);
    });
    const total = sum(groups, group => group.found);
    this.#said.textContent = total === 0 ? "Nothing found" : count(total, "hit");
    const nothing = h("div.ex-hint", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, `Nothing in this record holds “${query}”.`);
    fill(this.#list, ...(total === 0 ? [nothing] : shown));
    this.#options = options;
    this.#at = -1;
    this.#move(0);
    aria(this.#input, "expanded", "true");
    if (!this.#list.matches(":popover-open")) this.#list.showPopover();
    below(this.#list, this.#input);
  }

  #hide(): void {
    aria(this.#input, "expanded", "false");
    this.#input.removeAttribute("aria-activedescendant");
    if (this.#list.matches(":popover-open")) this.#list.hidePopover();
  }

  #move(to: number): void {
    this.#options[this.#at]?.[0].setAttribute("aria-selected", "false");
    this.#at = Math.max(0, Math.min(to, this.#options.length - 1));
    const row = this.#options[this.#at]?.[0];
    if (!row) return;
    aria(row, "selected", "true");
    row.scrollIntoView({ block: "nearest" });
    aria(this.#input, "activedescendant", row.id);
  }

  #choose(entry: Entry): void {
    this.#hide();
    this.#chosen(entry);
  }

  #key(event: KeyboardEvent): void {
    const open = this.#list.matches(":popover-open");
    if (event.key === "ArrowDown" && open) this.#move(this.#at + 1);
    else if (event.key === "ArrowUp" && open) this.#move(this.#at - 1);
    else if (event.key === "Enter" && open) {
      const entry = this.#options[this.#at]?.[1];
      if (entry) this.#choose(entry);
    } else if (event.key === "Escape" && open) this.#hide();
    else return;
    taken(event);
  }
}
