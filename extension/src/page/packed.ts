// A record compressed by gzip, in base64: how reports hold it, and how JupyterLab hands over a file that is not text.

import type { RecordData } from "../viewer/record";

/** Bytes of JSON that are unpacked at most, as explorer.session.LARGEST: a small file may stand for a huge one. */
const LARGEST = 2 ** 28;

export async function packed(record: RecordData): Promise<string> {
  const stream = new Blob([JSON.stringify(record)]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let letters = "";
  // String.fromCharCode takes so many arguments and no more.
  for (let at = 0; at < bytes.length; at += 0x8000) letters += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(letters);
}

/** The JSON value in it; whether it is a record is for the viewer to see. Throws an Error that says what is wrong. */
export async function unpacked(base64: string): Promise<unknown> {
  let text = "";
  try {
    const bytes = Uint8Array.from(atob(base64.replace(/\s/g, "")), letter => letter.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    const decoder = new TextDecoder();
    let size = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      size += part.value.length;
      if (size > LARGEST) {
        await reader.cancel();
        throw new Error(`This file unpacks to more than ${LARGEST >> 20} MiB of JSON, and no record is that large.`);
      }
      text += decoder.decode(part.value, { stream: true });
    }
    return JSON.parse(text + decoder.decode());
  } catch (error) {
    if (error instanceof TypeError || error instanceof SyntaxError || error instanceof DOMException) {
      throw new Error(`This file is damaged (${error.message}). Save the record again.`, { cause: error });
    }
    throw error;
  }
}
