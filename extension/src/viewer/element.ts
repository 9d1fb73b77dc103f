// What can be selected: an element of a compile by its id, or a source line, which all compiles of a record share.

/** "COMPILE|ID", or "|FILE:LINE" for a source line. */
export type Key = string;

export const key = (compile: string, id: string): Key => (isSourceLine(id) ? `|${id}` : `${compile}|${id}`);

/** "mul" of the node "aten.mul_1". */
export const operator = (node: string): string => node.replace(/^\w+\.|_\d+$/g, "");

export function parts(of: Key): { compile: string; id: string } {
  const bar = of.indexOf("|");
  return { compile: of.slice(0, bar), id: of.slice(bar + 1) };
}

/** Whether an id is "FILE:LINE" with a line number, and a file name with a path or a suffix (as
 * records/data/provenance.py). */
export function isSourceLine(id: string): boolean {
  const colon = id.lastIndexOf(":");
  if (colon < 0 || !/^\d+$/.test(id.slice(colon + 1))) return false;
  return /[/\\.]/.test(id.slice(0, colon)) || id.startsWith("<");
}

/** The reason in an origin "synthetic:REASON", or null. */
export function syntheticReason(id: string): string | null {
  return id.startsWith("synthetic:") ? id.slice("synthetic:".length) : null;
}
