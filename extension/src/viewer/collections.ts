// Putting things together: under names, and as sums.

interface MapLike<K, V> {
  get(name: K): V | undefined;
  set(name: K, value: V): unknown;
}

/** What a map has under a name, made where it is not there yet. */
export function entry<K, V>(map: MapLike<K, V>, name: K, make: () => V): V {
  let found = map.get(name);
  if (found === undefined) map.set(name, (found = make()));
  return found;
}

/** What a table has under a name that a record gives: names like "constructor" are in every object. */
export function own<T>(of: { readonly [name: string]: T } | undefined, name: string): T | undefined {
  return of && Object.hasOwn(of, name) ? of[name] : undefined;
}

/** The least of any number of values, and of `or`: a call takes no more arguments than the stack has room for. */
export function least(values: readonly number[], or = Infinity): number {
  return values.reduce((found, each) => Math.min(found, each), or);
}

/** The greatest of any number of values, and of `or`. */
export function most(values: readonly number[], or = -Infinity): number {
  return values.reduce((found, each) => Math.max(found, each), or);
}

export function sum<T>(of: readonly T[], amount: (each: T) => number): number {
  return of.reduce((total, each) => total + amount(each), 0);
}
