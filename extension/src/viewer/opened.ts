// A record that a person opens from a file.

import { inflated } from "./inflate";
import type { RecordData } from "./record";
import { unreadable } from "./unreadable";

/** The record in a file that Record.save wrote. Throws an Error that says what is wrong with the file. */
export async function openedRecord(file: Blob): Promise<RecordData> {
  const value = await inflated(new Uint8Array(await file.arrayBuffer()));
  const problem = unreadable(value);
  if (problem) throw new Error(problem);
  return value as RecordData;
}
