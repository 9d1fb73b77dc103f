// A report of its own made in the page: the built template with a record put in, as explorer/view/html.py does it.

import type { RecordData } from "../viewer/record";
import { packed } from "./packed";

/** `template` is what `jlpm build` makes: the viewer, with holes for what differs. */
export async function filled(template: string, record: RecordData): Promise<string> {
  const parts: { readonly [hole: string]: string } = {
    title: escaped(record.title),
    fallback: "<p>The viewer of this record needs scripts, which are off here.</p>",
    record: await packed(record),
  };
  return template.replace(/<!--hole:(\w+)-->/g, (whole, hole: string) => parts[hole] ?? whole);
}

function escaped(text: string): string {
  const entities: { readonly [letter: string]: string } = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, letter => entities[letter] ?? letter);
}
