// A walk through what a record holds in an order: a slider, moves both ways, and a breakpoint, which is a query.

import { choices } from "./choices";
import { aria, fill, h, on, svg, tool } from "./dom";
import { own } from "./gather";
import { count, phrase } from "./format";
import { Signal } from "./signal";

/** The moves by their keys: the next one (""), a query, "/" for the breakpoint, or a way of its own; and their names. */
export type Moves = { readonly [letter: string]: readonly [to: string, label: string] };

/** What is walked through. */
export interface Walked {
  readonly name: string;
  /** Besides those to the next one and to the breakpoint. */
  readonly moves: Moves;
  readonly example: string;
  /** The hits of a query; what is wrong with it where it is none. */
  find(query: string): number[] | string;
  go(to: number): void;
  /** Where a way of its own leads; -1 for nowhere. */
  way?(at: number, to: string, back: boolean): number;
  /** What happens where, by its name: drawn below the slider, a band for each. A move to one is `${name}:`. */
  marks?(): { readonly [name: string]: readonly number[] };
}

type Fact = string | number | false | null | undefined;

/** Facts by their keys, of a step and what is known at it: one, several, or none. */
export type Facts<T> = { readonly [key: string]: (of: T, at: number) => Fact | readonly Fact[] };

export class Walk {
  readonly element: HTMLElement;
  readonly #slider: HTMLInputElement;
  readonly #told = h("output.ex-step-told");
  readonly #by = new Signal("");
  readonly #query: HTMLInputElement;
  readonly #chosen = h("span");
  readonly #map = svg("svg.ex-ticks", { preserveAspectRatio: "none" });
  #marks: { readonly [name: string]: readonly number[] } = {};
  #hits: readonly number[] = [];
  #wrong = "";
  #last = -1;
  #note = "";
  #at = -1;
  #shown: () => void = () => undefined;
  readonly #of: Walked;
  readonly #moves: Moves;
  readonly end: () => void;

  /** Keys work inside of `pane`; `kept` is the breakpoint. */
  constructor(pane: HTMLElement, kept: Signal<string>, of: Walked) {
    this.#of = of;
    const moves = (this.#moves = { i: ["", of.name.toLowerCase()], ...of.moves, c: ["/", "breakpoint"] });
    this.#slider = h("input", { type: "range", min: 0, step: 1, "aria-label": of.name, oninput: () => of.go(Number(this.#slider.value)) });
    this.#query = h("input.ex-select", { type: "search", placeholder: of.example, "aria-label": "Breakpoint", oninput: () => (kept.value = this.#query.value) });
    this.#by.watch(() => this.#look());
    this.end = kept.watch(query => {
      if (this.#query.value !== query) this.#query.value = query;
      if (query && this.#by.value !== "/") this.#by.value = "/";
      else this.#look();
    });
    this.element = h(
      "div.ex-walk", { role: "group", "aria-label": `${of.name}s` },
      tool("◀", "Back ( [ )", () => this.#move(true)), h("div.ex-slider", this.#slider, this.#map),
      tool("▶", "Forward ( ] )", () => this.#move(false)), this.#told, this.#chosen, this.#query,
    );
    on(pane, "keydown", event => {
      const { key } = event;
      const letter = key.toLowerCase();
      const move = own(moves, letter);
      if (!move && key !== "[" && key !== "]" || event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).matches("input[type=search],select")) return;
      if (move) this.#by.value = move[0];
      this.#move(key === "[" || key !== letter);
      event.preventDefault();
    });
  }

  /** There are other steps, up to `last`; `note` is what is to be said of them. */
  show(last: number, note = ""): void {
    this.#last = last;
    this.#note = note;
    this.element.hidden = last < 0;
    this.#slider.max = String(Math.max(0, last));
    this.#marks = this.#of.marks?.() ?? Object.fromEntries(Object.values(this.#moves).flatMap(([to]) => {
      const hits = to.endsWith(":") && last >= 0 && this.#of.find(to);
      return Array.isArray(hits) ? [[to.slice(0, -1), hits]] : [];
    }));
    const labels = Object.entries(this.#moves).flatMap(([letter, [to, label]]) => {
      const many = own(this.#marks, to.slice(0, -1))?.length;
      return many === 0 && to !== this.#by.value ? [] : [[to, phrase([label, many], " "), `Go by ${label} (${letter})`] as const];
    });
    this.#shown();
    const made = choices("Go by", labels, this.#by);
    this.#shown = made.end;
    fill(this.#chosen, made.element);
    this.#look();
  }

  /** Goes to a step, if there is one. */
  to(step: number): void {
    if (step <= this.#last) this.#of.go(step);
  }

  get at(): number {
    return this.#at;
  }

  set at(step: number) {
    this.#at = step;
    this.#tell();
  }

  /** What the moves lead to, where they go from hit to hit of a query. */
  #look(): void {
    const { value } = this.#by;
    const query = value === "/" ? this.#query.value : value.endsWith(":") ? value : "";
    const found = own(this.#marks, query.slice(0, -1)) ?? (query.trim() && this.#last >= 0 ? this.#of.find(query) : []);
    [this.#hits, this.#wrong] = typeof found === "string" ? [[], found] : [found, ""];
    aria(this.#query, "invalid", `${!!this.#wrong}`);
    const bands = Object.entries({ ...this.#marks, ...(own(this.#marks, query.slice(0, -1)) ? {} : { breakpoint: this.#hits }) }).filter(([, steps]) => steps.length);
    this.#map.setAttribute("viewBox", `0 0 999 ${bands.length}`);
    this.#map.style.height = `${4 * bands.length}px`;
    fill(this.#map, ...bands.map(([name, steps], band) => svg(
      "path", { class: `ex-tick-${name}`, d: [...new Set(steps.map(step => `M${Math.round(999 * step / this.#last) || 0} ${band}v1`))].join("") },
      svg("title", `${name}: ${count(steps.length, "step")}`),
    )));
    this.#tell();
  }

  #move(back: boolean): void {
    const { value } = this.#by;
    const at = this.#at;
    const to = value === "" ? at + (back ? -1 : 1)
      : /\W$/.test(value) ? (back ? this.#hits.filter(hit => hit < at).pop() : this.#hits.find(hit => hit > at))
        : this.#of.way?.(Math.max(0, at), value, back);
    if (to !== undefined && to >= 0) this.#of.go(Math.min(to, this.#last));
  }

  #tell(): void {
    this.#slider.value = String(Math.max(0, this.#at));
    const now = this.#at < 0 ? count(this.#last + 1, this.#of.name.toLowerCase()) : `step ${this.#at} of ${this.#last}`;
    aria(this.#slider, "valuetext", now);
    this.#told.textContent = phrase([now, this.#note, this.#wrong || (/\W$/.test(this.#by.value) && count(this.#hits.length, "hit"))], "; ");
  }
}

/** Where all terms of a query hold, as `facts` tell of each step; what is wrong with it where it is none. */
export function found<T>(query: string, facts: Facts<T>, steps: Iterable<T>): number[] | string {
  const terms = [...query.matchAll(/(\w+)([:=<>])("[^"]*"|\S*)|\S+/g)].map(([word, key = Object.keys(facts)[0]!, relation = ":", given = word]) =>
    [key, own(facts, key), holds(relation, given.replaceAll('"', "").toLowerCase())] as const);
  const unknown = terms.find(([, of]) => !of);
  if (unknown) return `No step has ${unknown[0]}; expected one of ${Object.keys(facts).join(", ")}.`;
  const hits: number[] = [];
  let at = 0;
  for (const step of steps) {
    if (terms.every(([, of, fits]) => [of!(step, at)].flat().some(fits))) hits.push(at);
    at++;
  }
  return hits;
}

/** A text may be several, "one|other", of which any will do. */
function holds(relation: string, wanted: string): (fact: Fact) => boolean {
  const several = wanted.split("|");
  const ways = several.every(Boolean) ? several : [wanted];
  return fact => {
    if (!fact && fact !== 0) return false;
    if (relation === "<") return +fact < +wanted;
    if (relation === ">") return +fact > +wanted;
    const text = `${fact}`.trim().toLowerCase();
    return ways.some(way => (relation === "=" || (typeof fact === "number" && way !== "") ? text === way : text.includes(way)));
  };
}
