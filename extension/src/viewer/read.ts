// A record as it comes from a stranger's file: what this viewer can show of it.

import type { Misfit } from "./check";
import * as kinds from "./kinds";
import { type RecordData, VERSION } from "./record";

/** Misfits that are told one by one. */
const MOST_TOLD = 5;

/** The record, or what of it is of the right kinds, with a note that says what is not. Throws an Error that says why
 * nothing can be shown. */
export function readRecord(value: unknown): RecordData {
  if (value === null || typeof value !== "object" || !("version" in value) || !("compiles" in value)) {
    throw new Error("It is not a record of torch-explorer: it has no version or no compiles.");
  }
  if (typeof value.version === "number" && value.version > VERSION) {
    throw new Error(`It was made by a newer torch-explorer (record version ${value.version}; this viewer reads up to ${VERSION}). Update torch-explorer to open it.`);
  }
  const misfits: Misfit[] = [];
  const record = kinds.RecordData(value, misfits) as RecordData | undefined;
  if (misfits.length === 0) return record as RecordData;
  const told = misfits.slice(0, MOST_TOLD).map(said).join("; ");
  const more = misfits.length > MOST_TOLD ? `; and ${misfits.length - MOST_TOLD} more` : "";
  if (!record) throw new Error(`It is damaged: ${told}${more}.`);
  return { ...record, notes: [...(record.notes ?? []), `Parts of this record are damaged: ${told}${more}.`] };
}

function said({ path, found, wanted }: Misfit): string {
  const place = path.slice(1);
  return found === undefined ? `${place} is missing` : `${place} is ${shown(found)}, and should be ${wanted}`;
}

/** Texts are cut: they may be long. */
function shown(found: unknown): string {
  if (Array.isArray(found)) return "a list";
  if (typeof found === "object" && found !== null) return "an object";
  const text = JSON.stringify(found) ?? String(found);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
