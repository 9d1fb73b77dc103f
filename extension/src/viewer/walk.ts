// A walk through what a record holds in an order: a slider, moves both ways, and a breakpoint, which is a query.

import { choices } from "./choices";
import { aria, fill, h, on, svg, tool } from "./dom";
import { own } from "./collections";
import { count, phrase } from "./format";
import { Signal } from "./signal";

/** The moves by their keys: the next one (""), a query, "/" for the breakpoint, or a way of its own; and their
 * names. */
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

type StepFact = string | number | false | null | undefined;

/** Facts by their keys, of a step and what is known at it: one, several, or none. */
export type StepFacts<T> = { readonly [key: string]: (of: T, at: number) => StepFact | readonly StepFact[] };

/** Keys work inside of `pane`; `kept` is the breakpoint. */
export function Walk(pane: HTMLElement, kept: Signal<string>, of: Walked) {
  const stepText = h("output.ex-step-told");
  const by = new Signal("");
  const chosen = h("span");
  const map = svg("svg.ex-ticks", { preserveAspectRatio: "none" });
  let marks: { readonly [name: string]: readonly number[] } = {};
  let hits: readonly number[] = [];
  let wrong = "";
  let lastStep = -1;
  let lastNote = "";
  let standing = -1;
  let shown: () => void = () => undefined;
  const moves: Moves = { i: ["", of.name.toLowerCase()], ...of.moves, c: ["/", "breakpoint"] };
  const slider =
    h("input", { type: "range", min: 0, step: 1, "aria-label": of.name, oninput: () => of.go(Number(slider.value)) });
  const queryField = h("input.ex-select", { type: "search", placeholder: of.example, "aria-label": "Breakpoint",
    oninput: () => (kept.value = queryField.value) });
  by.watch(look);
  const end = kept.watch(query => {
    if (queryField.value !== query) queryField.value = query;
    if (query && by.value !== "/") by.value = "/";
    else look();
  });
  const element = h(
    "div.ex-walk", { role: "group", "aria-label": `${of.name}s` },
    tool("◀", "Back ( [ )", () => step(true)), h("div.ex-slider", slider, map),
    tool("▶", "Forward ( ] )", () => step(false)), stepText, chosen, queryField,
  );
  on(pane, "keydown", event => {
    const { key } = event;
    const letter = key.toLowerCase();
    const move = own(moves, letter);
    if (!move && key !== "[" && key !== "]" || event.ctrlKey || event.metaKey || event.altKey
      || (event.target as Element).matches("input[type=search],select")) return;
    if (move) by.value = move[0];
    step(key === "[" || key !== letter);
    event.preventDefault();
  });

  /** There are other steps, up to `last`; `note` is what is to be said of them. */
  function show(last: number, note = ""): void {
    lastStep = last;
    lastNote = note;
    element.hidden = last < 0;
    slider.max = String(Math.max(0, last));
    marks = of.marks?.() ?? Object.fromEntries(Object.values(moves).flatMap(([to]) => {
      const hits = to.endsWith(":") && last >= 0 && of.find(to);
      return Array.isArray(hits) ? [[to.slice(0, -1), hits]] : [];
    }));
    const labels = Object.entries(moves).flatMap(([letter, [to, label]]) => {
      const many = own(marks, to.slice(0, -1))?.length;
      return many === 0 && to !== by.value
        ? [] : [[to, phrase([label, many], " "), `Go by ${label} (${letter})`] as const];
    });
    shown();
    const made = choices("Go by", labels, by);
    shown = made.end;
    fill(chosen, made.element);
    look();
  }

  /** Goes to a step, if there is one. */
  function to(step: number): void {
    if (step <= lastStep) of.go(step);
  }

  /** What the moves lead to, where they go from hit to hit of a query. */
  function look(): void {
    const { value } = by;
    const query = value === "/" ? queryField.value : value.endsWith(":") ? value : "";
    const found = own(marks, query.slice(0, -1)) ?? (query.trim() && lastStep >= 0 ? of.find(query) : []);
    [hits, wrong] = typeof found === "string" ? [[], found] : [found, ""];
    aria(queryField, "invalid", `${!!wrong}`);
    const bands = Object.entries({ ...marks, ...(own(marks, query.slice(0, -1)) ? {} : { breakpoint: hits }) })
      .filter(([, steps]) => steps.length);
    map.setAttribute("viewBox", `0 0 999 ${bands.length}`);
    map.style.height = `${4 * bands.length}px`;
    fill(map, ...bands.map(([name, steps], band) => svg(
      "path", { class: `ex-tick-${name}`,
        d: [...new Set(steps.map(step => `M${Math.round(999 * step / lastStep) || 0} ${band}v1`))].join("") },
      svg("title", `${name}: ${count(steps.length, "step")}`),
    )));
    tell();
  }

  function step(back: boolean): void {
    const { value } = by;
    const at = standing;
    const to = value === "" ? at + (back ? -1 : 1)
      : /\W$/.test(value) ? (back ? hits.filter(hit => hit < at).pop() : hits.find(hit => hit > at))
        : of.way?.(Math.max(0, at), value, back);
    if (to !== undefined && to >= 0) of.go(Math.min(to, lastStep));
  }

  function tell(): void {
    slider.value = String(Math.max(0, standing));
    const now = standing < 0 ? count(lastStep + 1, of.name.toLowerCase()) : `step ${standing} of ${lastStep}`;
    aria(slider, "valuetext", now);
    stepText.textContent = phrase([now, lastNote, wrong || (/\W$/.test(by.value) && count(hits.length, "hit"))], "; ");
  }

  return {
    element, end, show, to,
    get at() { return standing; },
    set at(step: number) {
      standing = step;
      tell();
    },
  };
}

export type Walk = ReturnType<typeof Walk>;

/** Where all terms of a query hold, as `facts` tell of each step; what is wrong with it where it is none. */
export function found<T>(query: string, facts: StepFacts<T>, steps: Iterable<T>): number[] | string {
  const terms = [...query.matchAll(/(\w+)([:=<>])("[^"]*"|\S*)|\S+/g)].map(
    ([word, key = Object.keys(facts)[0]!, relation = ":", given = word]) =>
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
function holds(relation: string, wanted: string): (fact: StepFact) => boolean {
  const several = wanted.split("|");
  const ways = several.every(Boolean) ? several : [wanted];
  return fact => {
    if (!fact && fact !== 0) return false;
    if (relation === "<") return +fact < +wanted;
    if (relation === ">") return +fact > +wanted;
    const text = `${fact}`.trim().toLowerCase();
    return ways.some(
      way => (relation === "=" || (typeof fact === "number" && way !== "") ? text === way : text.includes(way)));
  };
}
