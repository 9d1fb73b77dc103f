// A record that a person opens from a file.

import { inflated } from "./inflate";
import { readRecord } from "./read";
import type { RecordData } from "./record";

/** The record in a file that Record.save wrote. Throws an Error that says what is wrong with the file. */
export async function openedRecord(file: Blob): Promise<RecordData> {
  return readRecord(await inflated(new Uint8Array(await file.arrayBuffer())));
}
