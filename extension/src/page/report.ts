// A report of its own made in the page: the built template with a record put in, as explorer/show/view/html.py does it.

import { packed } from "./packed";

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
