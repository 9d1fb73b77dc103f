// The line at the foot: what is selected, and the chain of its causes and effects in words.

import { button, fill, h } from "./dom";
import { isSourceLine, type Key, parts, syntheticReason } from "./element";
import { count, phrase } from "./format";
import { own } from "./collections";
import type { Links } from "./links";
import type { Context } from "./pane";
import { mnemonic } from "./panes/code/intel";
import { type FileNames, place } from "./sources";
import { watchAny } from "./signal";

const MOST_NAMED = 8;

export function Trail(context: Context) {
  const element = h("footer.ex-trail");
  const { selection, model } = context;
  const dispose = watchAny(render, selection.hovered, selection.pinned, model.links, context.compile);

  /** What a machine instruction does. */
  function meaning(what: Key): string {
    const { record } = context.model;
    const [, name, line = 0] = /^(.*):asm:(\d+)$/.exec(parts(what).id) ?? [];
    const kernels = context.model.compile(parts(what).compile)?.halves?.flatMap(half => half.kernels ?? []);
    const text = kernels?.find(each => each.function === name)?.lowered?.["asm"]?.lines[+line - 1]?.[0];
    return own(record.value.mnemonics ?? {}, mnemonic(text ?? ""))?.[0] ?? "";
  }

  function render(): void {
    const { hovered, pinned } = context.selection;
    const what = hovered.value ?? pinned.value;
    const free = button("ex-link", "unpin (Esc)", () => (pinned.value = null));
    if (what === null) {
      fill(element,
        h("span.ex-hint-inline", "Hover over anything to see what caused it and what it became; click to pin."));
      return;
    }
    const links = context.model.links.value;
    const files = context.model.files.value;
    const { causes, effects } = chainInWords(links, what, files);
    // What a compile has is in no other's program.
    const programs = parts(what).compile === context.compile.value ? [] : links.programsOf(what);
    const go = programs.includes(context.compile.value) ? [] : programs.slice(0, MOST_NAMED).map(id =>
      button("ex-link", `in ${id}`, () => (context.compile.value = id)));
    const guessed = links.inferred(what);
    const means = meaning(what);
    fill(element,
      h("strong", nameOf(what, files)),
      ...(means ? [h("span", means)] : []),
      h("span", causes),
      h("span.ex-trail-effects", effects, ...go.flatMap(each => [" ", each])),
      ...(guessed ? [h("em", `link inferred: ${guessed}`)] : []),
      ...(pinned.value === null
        ? []
        : [h("span.ex-trail-pin", pinned.value === what ? "pinned " : `pinned: ${nameOf(pinned.value, files)} `,
          free)]),
    );
  }

  return { element, dispose };
}

/** An element's name as a person reads it. */
export function nameOf(what: Key, files: FileNames): string {
  const { id } = parts(what);
  if (!isSourceLine(id)) return id;
  const { file, line } = place(what);
  return files.place(file, line);
}

/** "← fx.mul ← f0@5 ← make.py:9" with the nearest first, and "→ 3 ATen nodes, 12 lines"; or why there is no source
 * line. */
export function chainInWords(links: Links, what: Key, files: FileNames): { causes: string; effects: string } {
  const causes = [...links.causes(what)].filter(each => each !== what);
  const reasons = causes.map(each => syntheticReason(parts(each).id)).filter(reason => reason !== null);
  const named = causes.filter(each => syntheticReason(parts(each).id) === null);
  const more = named.length > MOST_NAMED ? ` and ${named.length - MOST_NAMED} more` : "";
  const originsText = named.slice(0, MOST_NAMED).map(each => `← ${nameOf(each, files)}`).join(" ") + more;
  const without = reasons.length && !named.some(each => parts(each).compile === "")
    ? `no source line: ${[...new Set(reasons)].join(", ")}` : "";
  const effects = links.became(what);
  const found = KINDS.map(() => ({ some: 0, shared: 0 }));
  for (const [each, direct] of effects) {
    const { id } = parts(each);
    const of = found[KINDS.findIndex(([kind]) => kind.test(id))];
    if (!of) continue;
    of.some++;
    if (!direct) of.shared++;
  }
  const became =
    found.map(
      ({ some, shared }, n) => (some
        ? count(some, KINDS[n]![1]) + (shared ? ` (${shared === some ? "" : `${shared} `}shared)` : "") : ""));
  return { causes: phrase([originsText, without], "  "),
    effects: effects.length ? `→ ${phrase(became, ", ") || count(effects.length, "effect")}` : "" };
}

/** What people count, by its ids. */
const KINDS: readonly (readonly [ids: RegExp, name: string])[] = [
  [/@\d+$/, "bytecode instruction"], [/^fx\./, "graph node"], [/^aten\./, "ATen node"], [/^(\w+_)?k\d+$/, "kernel"],
  [/^(\w+_)?k\d+:\d+$/, "generated line"], [/:asm:\d+$|:sass:\d+$/, "machine instruction"],
];
