// What a box is about, as a card: beside the pointer while it rests on a box, in the corner for the box that was
// chosen.

import { reasonLink } from "../../reasonlink";
import { button, fill, h, tool } from "../../dom";
import type { Context } from "../../pane";
import { type NodeFact, describe } from "./facts";
import type { DrawnItem } from "./scene";

export function Card(context: Context, closable: (() => void) | null) {
  const element = h("div.ex-g-card", { hidden: true });
  if (!closable) element.classList.add("ex-g-tip");

  function show(mark: DrawnItem | null): void {
    element.hidden = mark === null;
    if (!mark) return;
    const { title, meaning, facts } = describe(mark, context.model);
    const guessed = mark.key === null ? undefined : context.model.links.value.inferred(mark.key);
    const close = closable && tool("×", "Close", closable);
    fill(element,
      h("div.ex-g-card-head", h("strong", title), close),
      ...(meaning ? [h("p.ex-g-meaning", meaning)] : []),
      h(
        "dl", ...facts.flatMap(fact => [h("dt", fact.name), h("dd", value(fact))]),
        ...(guessed ? [h("dt", "Inferred"), h("dd", `source: ${guessed}`)] : []),
      ),
    );
  }

  /** Puts it beside a point of what holds it, where there is room. */
  function place(x: number, y: number): void {
    const holder = element.parentElement;
    if (!holder) return;
    const { offsetWidth: width, offsetHeight: height } = element;
    const left = x + 18 + width < holder.clientWidth ? x + 18 : Math.max(4, x - width - 12);
    const top = Math.max(4, Math.min(y + 14, holder.clientHeight - height - 4));
    Object.assign(element.style, { left: `${left}px`, top: `${top}px` });
  }

  function value({ text, pane, what, why }: NodeFact): Node | string {
    if (!closable) return text;
    if (why) return reasonLink(why, context);
    if (pane === undefined || what === undefined) return text;
    return button("ex-link", text, () => context.show(pane, what));
  }

  return { element, show, place };
}

export type Card = ReturnType<typeof Card>;
