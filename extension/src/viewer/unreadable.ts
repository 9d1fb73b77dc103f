// Whether something is a record that this viewer can show.

import { VERSION } from "./record";

/** Why not; null where it is one. */
export function unreadable(record: unknown): string | null {
  if (record === null || typeof record !== "object" || !("version" in record) || !("compiles" in record)) {
    return "It is not a record of torch-explorer: it has no version or no compiles.";
  }
  if (typeof record.version !== "number" || !Array.isArray(record.compiles)) return "It is damaged: its version or its compiles are of the wrong kind.";
  if (record.version > VERSION) {
    return `It was made by a newer torch-explorer (record version ${record.version}; this viewer reads up to ${VERSION}). Update torch-explorer to open it.`;
  }
  return null;
}
