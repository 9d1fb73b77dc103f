// Whether data is of the kind that it should be. What is not is left out, and told of: the data comes from strangers.

import { count } from "./format";

/** Something of the wrong kind: where it is (".compiles[0].title"), what it is, and what it should be. */
export interface Misfit {
  path: string;
  readonly found: unknown;
  readonly wanted: string;
}

/** What of a value fits: the value itself where all of it does, undefined where nothing can be kept. */
export type Check = (value: unknown, misfits: Misfit[]) => unknown;

interface Fields {
  readonly [name: string]: Check;
}

function scalar(wanted: string, fits: (value: unknown) => boolean): Check {
  return (value, misfits) => {
    if (fits(value)) return value;
    misfits.push({ path: "", found: value, wanted });
    return undefined;
  };
}

/** Characters of one text: of a longer one the first. */
const LONGEST = 1_000_000;

export const text: Check = (value, misfits) => {
  if (typeof value !== "string") return wrong("text", value, misfits);
  if (value.length <= LONGEST) return value;
  wrong(`at most ${count(LONGEST, "character")}: the rest is left out`, value, misfits);
  return value.slice(0, LONGEST);
};
export const flag = scalar("true or false", value => typeof value === "boolean");
export const real = scalar("a number", Number.isFinite);
/** As large as a machine's integers are at most. */
export const whole = scalar("a whole number", value => Number.isInteger(value) && Math.abs(value as number) <= 2 ** 64);

export function between(least: number, most: number): Check {
  return scalar(`a whole number from ${least} to ${most}`,
    value => Number.isInteger(value) && (value as number) >= least && (value as number) <= most);
}

/** One of a few words. */
export function one(...words: readonly string[]): Check {
  return scalar(words.join(" or "), value => words.some(word => word === value));
}

/** Null stands for something that is not there. */
export const maybe = (check: Check): Check => (value, misfits) => (value === null ? null : check(value, misfits));

/** One of several scalars; the last one tells where none fits. */
export function either(...checks: readonly Check[]): Check {
  return (value, misfits) => {
    for (const check of checks.slice(0, -1)) if (check(value, []) !== undefined) return value;
    return checks.at(-1)?.(value, misfits);
  };
}

/** Items of a list that is given no number of its own. */
const MOST_ITEMS = 100_000;

/** The items that fit, `most` of them; where `by` names a field, those that differ in it. */
export function list(item: Check, most = MOST_ITEMS, by = ""): Check {
  return (value, misfits) => {
    if (!Array.isArray(value)) return wrong("a list", value, misfits);
    const items: readonly unknown[] = value.length > most ? value.slice(0, most) : value;
    if (items !== value) wrong(`at most ${count(most, "item")}: the others are left out`, value, misfits);
    const taken = each(items, items.length, item, misfits);
    const fitting = taken === items ? items : taken.filter(one => one !== undefined);
    return by ? distinct(fitting, by, misfits) : fitting;
  };
}

function distinct(items: readonly unknown[], by: string, misfits: Misfit[]): readonly unknown[] {
  const seen = new Set<unknown>();
  const first = items.filter(item => {
    const name = (item as { readonly [field: string]: unknown })[by];
    if (seen.has(name)) return false;
    seen.add(name);
    return true;
  });
  if (first.length === items.length) return items;
  wrong(`items with another ${by} each: those with the same are left out`, items, misfits);
  return first;
}

/** An array whose places mean different things, up to the first that does not fit; those after `least` may be
 * missing. */
export function row(least: number, ...places: readonly Check[]): Check {
  return (value, misfits) => {
    if (!Array.isArray(value) || value.length < least) return wrong(`a list of ${least}`, value, misfits);
    const taken = each(value, Math.min(value.length, places.length), places, misfits);
    const end = taken === value ? -1 : taken.indexOf(undefined);
    return end < 0 ? taken : end < least ? undefined : taken.slice(0, end);
  };
}

/** The entries of an object that fit. */
export function entries(entry: Check, most = Infinity): Check {
  return (value, misfits) => {
    if (!isObject(value)) return wrong("an object", value, misfits);
    const there = Object.entries(value);
    const taken = there.length > most ? Object.fromEntries(there.slice(0, most)) : value;
    if (taken !== value) wrong(`at most ${count(most, "entry", "entries")}: the others are left out`, value, misfits);
    return kept(taken, Object.keys(taken), entry, misfits);
  };
}

/** An object with these fields; without an optional one that does not fit. */
export function shape(required: Fields, optional: Fields = {}): Check {
  const all: Fields = { ...required, ...optional };
  const [needed, names] = [Object.keys(required), Object.keys(all)];
  return (value, misfits) => {
    if (!isObject(value)) return wrong("an object", value, misfits);
    const taken = kept(value, names, all, misfits, required);
    return needed.some(name => taken[name] === undefined) ? undefined : taken;
  };
}

/** More levels than an expression over sizes has: one that is deeper was made to be. */
const DEEPEST = 100;

/** A structure within itself. */
export function again(check: () => Check): Check {
  let depth = 0;
  return (value, misfits) => {
    if (depth === DEEPEST) return wrong(`at most ${DEEPEST} levels`, value, misfits);
    depth++;
    try {
      return check()(value, misfits);
    } finally {
      depth--;
    }
  };
}

/** A record has a million values: none of them costs an object or a function of its own here. */
function kept(value: { readonly [name: string]: unknown }, names: readonly string[], checks: Check | Fields,
    misfits: Misfit[], required: Fields = {}): { readonly [name: string]: unknown } {
  let fitting: { [name: string]: unknown } | null = null;
  for (const name of names) {
    const given = value[name];
    if (given === undefined && !(name in required)) continue;
    const before = misfits.length;
    const taken = (typeof checks === "function" ? checks : checks[name]!)(given, misfits);
    if (misfits.length > before) prefixPaths(misfits, before, `.${name}`);
    if (taken === given && taken !== undefined) continue;
    fitting ??= { ...value };
    if (taken === undefined) delete fitting[name];
    else fitting[name] = taken;
  }
  return fitting ?? value;
}

function each(value: readonly unknown[], most: number, checks: Check | readonly Check[],
    misfits: Misfit[]): readonly unknown[] {
  let fitting: unknown[] | null = null;
  for (let n = 0; n < most; n++) {
    const before = misfits.length;
    const taken = (typeof checks === "function" ? checks : checks[n]!)(value[n], misfits);
    if (misfits.length > before) prefixPaths(misfits, before, `[${n}]`);
    if (taken !== value[n]) (fitting ??= [...value])[n] = taken;
  }
  return fitting ?? value;
}

/** Those from `first` on are inside of `step`. */
function prefixPaths(misfits: Misfit[], first: number, step: string): void {
  for (const misfit of misfits.slice(first)) misfit.path = step + misfit.path;
}

function wrong(wanted: string, found: unknown, misfits: Misfit[]): undefined {
  misfits.push({ path: "", found, wanted });
}

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
