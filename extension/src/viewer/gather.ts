// Putting things together: under names, and as sums.

/** What a map has under a name, made where it is not there yet. */
export function entry<K, V>(map: Map<K, V>, name: K, make: () => V): V {
  let found = map.get(name);
  if (found === undefined) map.set(name, (found = make()));
  return found;
}

/** What a table has under a name that a record gives: names like "constructor" are in every object. */
export function own<T>(of: { readonly [name: string]: T } | undefined, name: string): T | undefined {
  return of && Object.hasOwn(of, name) ? of[name] : undefined;
}

export function sum<T>(of: readonly T[], amount: (each: T) => number): number {
  return of.reduce((total, each) => total + amount(each), 0);
}
