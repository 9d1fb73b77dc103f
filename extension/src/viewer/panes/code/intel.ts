// AT&T's assembly for x86-64 in Intel's syntax, as explorer/records/data/instructions.py writes it.

import { own } from "../../collections";
import type { MnemonicData } from "../../record";

const LINE = /^(\s+)((?:lock |rep[a-z]* |notrack |\{evex\} )*)([a-z]\w*)(?![\w:])(\s*)([^#]*?)(\s*(?:#.*)?)$/;
const MEMORY = /^(\*?)(%[c-gs]s:)?([^(){}]*)\((%\w+)?(?:,(%\w+)?(?:,(\d))?)?\)(.*)$/;

/** The instruction of a line; "" for one that is none. */
export const mnemonic = (line: string): string => LINE.exec(line)?.[3] ?? "";

export function intel(line: string, known: { readonly [name: string]: MnemonicData }): string {
  const [, indent, prefix, name = "", space, operands, comment] = LINE.exec(line) ?? [];
  if (!name) return line;
  const [, other] = own(known, name) ?? [];
  const [written = name, ...size] = other && !(name === "movq" && operands?.includes("mm"))
    ? other.split(" ") : [name, ...(other?.split(" ").slice(1) ?? [])];
  const operandText =
    operands?.split(/,\s*(?![^()]*\))/).reverse().map(each => operand(each, size.join(" "))).join(", ");
  return `${indent}${prefix}${written}${space}${operandText}${comment}`;
}

function operand(text: string, size: string): string {
  const [all, star, segment = "", offset, base, index, scale = "1", rest = ""] = MEMORY.exec(text) ?? [];
  if (all === undefined) {
    const bare = text.replace(/%(?=\w)/g, "").replace(/^\*/, "");
    return bare.replace(/^\$(?=-?(0x[\da-f]+|\d+)$)/i, "").replace(/^\$/, "OFFSET FLAT:");
  }
  const terms =
    [base?.slice(1), index && index.slice(1) + (scale === "1" ? "" : `*${scale}`), offset === "0" ? "" : offset];
  const sizeText = star ? "QWORD PTR " : size && `${size} `;
  const place = terms.filter(Boolean).join("+").replace("+-", "-");
  return `${sizeText}${segment.slice(1)}[${place}]${rest.replace(/%/g, "")}`;
}
