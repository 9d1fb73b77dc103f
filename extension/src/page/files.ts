// What a page opens and gives: records compressed by gzip, in base64, as reports hold them and as JupyterLab hands over
// a file that is not text; and reports, made of the built template as explorer/show/view/html.py does it.

import { decoded, inflated } from "../viewer/inflate";

/** Gives the user a file, as a link to it would. */
export function download(name: string, mime: string, contents: string | Blob): void {
  const url = URL.createObjectURL(contents instanceof Blob ? contents : new Blob([contents], { type: mime }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

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

/** `template` is what `jlpm build` makes: the viewer, with holes for what differs; `shown` is whatever it shows. */
export async function filled(template: string, shown: unknown): Promise<string> {
  const parts: { readonly [hole: string]: string } = {
    title: escaped(titleOf(shown)),
    fallback: "<p>The viewer of this record needs scripts, which are off here.</p>",
    record: await packed(shown),
  };
  return template.replace(/<!--hole:(\w+)-->/g, (whole, hole: string) => parts[hole] ?? whole);
}

function titleOf(shown: unknown): string {
  return typeof shown === "object" && shown !== null && "title" in shown && typeof shown.title === "string"
    ? shown.title : "";
}

function escaped(text: string): string {
  const entities: { readonly [letter: string]: string } = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, letter => entities[letter] ?? letter);
}
