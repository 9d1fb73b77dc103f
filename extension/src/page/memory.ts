// What a person set up in a viewer, kept in this browser's storage by notebook or file. Not in the notebook itself: a
// pane that was moved would then make the file dirty and show up in its diffs, and a stranger's file would lay out the
// reader's screen.

import type { Json } from "../viewer/host";

const PREFIX = "torch-explorer:";
/** Places that are remembered; those not used for longest are forgotten beyond that. */
const MOST = 200;

interface SavedPage {
  readonly used: number;
  readonly values: { readonly [name: string]: Json };
}

export function Memory(place: string, storage: Storage | null = available()) {
  const recall = (name: string): Json | undefined => read().values[name];
  const read = (): SavedPage => parsed(storage?.getItem(PREFIX + place) ?? null);

  function remember(name: string, value: Json): void {
    if (!storage) return;
    const kept: SavedPage = { used: Date.now(), values: { ...read().values, [name]: value } };
    forget();
    try {
      storage.setItem(PREFIX + place, JSON.stringify(kept));
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      console.warn(`torch-explorer: the browser's storage is full, so ${name} will not be remembered`, error);
    }
  }

  function forget(): void {
    if (!storage) return;
    const others = Object.keys(storage).filter(key => key.startsWith(PREFIX) && key !== PREFIX + place);
    if (others.length < MOST) return;
    const used = (key: string) => parsed(storage.getItem(key)).used;
    others.sort((a, b) => used(b) - used(a)).slice(MOST - 1).forEach(key => storage.removeItem(key));
  }

  return { recall, remember };
}

export type Memory = ReturnType<typeof Memory>;

function parsed(text: string | null): SavedPage {
  const empty: SavedPage = { used: 0, values: {} };
  if (text === null) return empty;
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found !== "object" || found === null || !("values" in found)) return empty;
    const { used, values } = found as { used?: unknown; values: unknown };
    if (typeof values !== "object" || values === null || Array.isArray(values)) return empty;
    return { used: typeof used === "number" ? used : 0, values: values as SavedPage["values"] };
  } catch (error) {
    if (error instanceof SyntaxError) return empty;
    throw error;
  }
}

/** The page's storage; null where the browser denies it (a private window, a page from a file). */
function available(): Storage | null {
  try {
    return window.localStorage;
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}
