// The program that was captured, and the texts that were made of it, as rows that its lines link.

import { key } from "../element";
import type { Palette } from "../palette";
import type { TextData } from "../record";
import { stretchesOf } from "../sources";
import type { TextRow } from "../textview";
import type { MethodsData } from "./data";

/** Every line of the program that something was made for, as keys. */
export function programLines({ methods, operations }: MethodsData): string[] {
  const texts = methods.flatMap(
    method => (method.views ?? []).flatMap(view => view.text.lines.flatMap(([, , origins]) => origins ?? [])));
  const places = [...texts, ...(operations ?? []).flatMap(each => (each.where ? [each.where] : []))];
  return [...new Set(places)].map(place => key("", place));
}

export function sourceRows(data: MethodsData, palette: Palette): TextRow[] {
  return stretchesOf(data).flatMap(({ file, name, first, lines }): TextRow[] => [
    { text: `${name}, from line ${first}`, style: "heading" },
    ...lines.map((text, n): TextRow => {
      const line = key("", `${file}:${first + n}`);
      return { text, stands: [line], color: palette.of(line), number: String(first + n) };
    }),
  ]);
}

export function textRows(text: TextData, palette: Palette): TextRow[] {
  return text.lines.map(([line, , origins], n) => {
    const stands = (origins ?? []).map(place => key("", place));
    return { text: line, stands, color: palette.ofAll(stands), number: String(n + 1) };
  });
}
