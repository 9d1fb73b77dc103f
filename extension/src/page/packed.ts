// A record compressed by gzip, in base64: how reports hold it, and how JupyterLab hands over a file that is not text.

import { decoded, inflated } from "../viewer/inflate";

export async function packed(shown: unknown): Promise<string> {
  const stream = new Blob([JSON.stringify(shown)]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let letters = "";
  // String.fromCharCode takes so many arguments and no more.
  for (let at = 0; at < bytes.length; at += 0x8000) letters += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(letters);
}

/** The JSON value in it; whether it is a record is for the viewer to see. Throws an Error that says what is wrong. */
export async function unpacked(base64: string): Promise<unknown> {
  let bytes;
  try {
    bytes = decoded(base64);
  } catch (error) {
    throw new Error("This file is damaged: what should be base64 is not. Save the record again.", { cause: error });
  }
  return inflated(bytes);
}

/** What an output holds: as it is, or as one string of its own beside what heads it. */
export async function opened(shown: unknown): Promise<unknown> {
  const packed = typeof shown === "object" && shown !== null && "packed" in shown ? shown.packed : null;
  return typeof packed === "string" ? unpacked(packed) : shown;
}
