// Settings that are remembered with the notebook or file.

import type { Host, Json } from "./host";
import { type Dispose, onChange, Signal } from "./signal";

/** A setting with what was kept of it, where that can stand for it, and what ends the keeping. */
export function remembered<T extends Json>(host: Host, name: string, initial: T): readonly [Signal<T>, Dispose] {
  const kept = host.recall(name);
  const signal = new Signal<T>(kept !== undefined && sameKind(kept, initial) ? (kept as T) : initial);
  return [signal, onChange(signal, value => host.remember(name, value))];
}

/** An older version may have kept something else there. */
function sameKind(kept: Json, initial: Json): boolean {
  if (kept === null || initial === null) return initial === null || kept === initial;
  return typeof kept === typeof initial && Array.isArray(kept) === Array.isArray(initial);
}
