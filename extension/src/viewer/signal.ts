// Values that tell who reads them when they change.

export type Dispose = () => void;

/** What ends all of these. */
export function ends(...all: readonly (Dispose | { dispose(): void })[]): Dispose {
  return () => all.forEach(each => (typeof each === "function" ? each() : each.dispose()));
}

export interface Readable<T> {
  readonly value: T;
  /** Calls `listener` with the value now and after each change; the result ends that. */
  watch(listener: (value: T) => void): Dispose;
}

export class Signal<T> implements Readable<T> {
  readonly #listeners = new Set<(value: T) => void>();
  #current: T;

  constructor(current: T) {
    this.#current = current;
  }

  get value(): T {
    return this.#current;
  }

  set value(next: T) {
    if (Object.is(next, this.#current)) return;
    this.#current = next;
    for (const listener of [...this.#listeners]) if (this.#listeners.has(listener)) listener(next);
  }

  watch(listener: (value: T) => void): Dispose {
    this.#listeners.add(listener);
    listener(this.#current);
    return () => this.#listeners.delete(listener);
  }
}

/** A signal that follows others. It holds on to them until `end` is called. */
export class Derived<T> implements Readable<T> {
  readonly #inner: Signal<T>;
  readonly end: Dispose;

  constructor(from: readonly Readable<unknown>[], compute: () => T) {
    this.#inner = new Signal(compute());
    const disposers = from.map(each => onChange(each, () => (this.#inner.value = compute())));
    this.end = () => disposers.forEach(dispose => dispose());
  }

  get value(): T {
    return this.#inner.value;
  }

  watch(listener: (value: T) => void): Dispose {
    return this.#inner.watch(listener);
  }
}

/** Calls `listener` once now, and after each change of any of these; the result ends that. */
export function watchAny(listener: () => void, ...of: readonly Readable<unknown>[]): Dispose {
  const end = ends(...of.map(each => onChange(each, listener)));
  listener();
  return end;
}

/** Watches for changes alone: no call for the value that is there now. */
export function onChange<T>(of: Readable<T>, listener: (value: T) => void): Dispose {
  let there = false;
  const end = of.watch(value => {
    if (there) listener(value);
  });
  there = true;
  return end;
}
