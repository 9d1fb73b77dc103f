// A record as it comes from a stranger's file: what this viewer can show of it.

import type { Check, Misfit } from "./check";
import { grouped } from "./format";
import { RecordData, VERSION } from "./record";
import { inflated } from "./inflate";

/** Misfits that are told one by one. */
const MOST_TOLD = 5;

/** The record, or what of it is of the right kinds, with a note that says what is not. Throws an Error that says why
 * nothing can be shown. */
export function readRecord(value: unknown): RecordData {
  const [record, damage] = fitting<RecordData>(value, "record", "compiles", VERSION, RecordData);
  return damage
    ? { ...record, notes: [...(record.notes ?? []), `Parts of this record are damaged: ${damage}.`] } : record;
}

/** What of a value is of the right kinds, and in words what is not; `list` is a field that tells such data from other.
 * Throws an Error that says why nothing can be shown. */
export function fitting<T>(value: unknown, what: string, list: string, version: number,
    check: Check): readonly [fits: T, damage: string] {
  if (value === null || typeof value !== "object" || !("version" in value) || !(list in value)) {
    throw new Error(`It is not a ${what} of torch-explorer: it has no version or no ${list}.`);
  }
  const found = value.version;
  if (typeof found === "number" && found !== version) {
    const [age, hint] = found > version
      ? ["a newer", "Update torch-explorer to open it."] : ["an older", "Run the program again to make a new one."];
    throw new Error(
      `It was made by ${age} torch-explorer (${what} version ${found}; this viewer reads ${version}). ${hint}`);
  }
  const misfits: Misfit[] = [];
  const fits = check(value, misfits) as T | undefined;
  const more = misfits.length > MOST_TOLD ? `; and ${misfits.length - MOST_TOLD} more` : "";
  const damage = misfits.slice(0, MOST_TOLD).map(misfitText).join("; ") + more;
  if (fits === undefined) throw new Error(`It is damaged: ${damage}.`);
  return [fits, damage];
}

function misfitText({ path, found, wanted }: Misfit): string {
  const place = cut(path.slice(1), 120);
  return found === undefined ? `${place} is missing` : `${place} is ${shown(found)}, and should be ${wanted}`;
}

function shown(found: unknown): string {
  if (Array.isArray(found)) return `a list of ${grouped(found.length)}`;
  if (typeof found === "object" && found !== null) return "an object";
  return cut(JSON.stringify(found) ?? String(found), 40);
}

/** Names and texts of a stranger's may be long. */
const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}…` : text);

/** The record in a file that Record.save wrote. Throws an Error that says what is wrong with the file. */
export async function openedRecord(file: Blob): Promise<RecordData> {
  return readRecord(await inflated(new Uint8Array(await file.arrayBuffer())));
}
