// What a box is about, as a card: beside the pointer while it rests on a box, in the corner for the box that was chosen.

import { because } from "../../because";
import { button, fill, h, tool } from "../../dom";
import type { Context } from "../../pane";
import { type Fact, told } from "./facts";
import type { Mark } from "./scene";

export class Card {
  readonly element = h("div.ex-g-card", { hidden: true });
  readonly #context: Context;
  readonly #closable: (() => void) | null;

  constructor(context: Context, closable: (() => void) | null) {
    this.#context = context;
    this.#closable = closable;
    if (!closable) this.element.classList.add("ex-g-tip");
  }

  show(mark: Mark | null): void {
    this.element.hidden = mark === null;
    if (!mark) return;
    const { title, meaning, facts } = told(mark, this.#context.model);
    const guessed = mark.key === null ? undefined : this.#context.model.links.value.inferred(mark.key);
    const close = this.#closable && tool("×", "Close", this.#closable);
    fill(this.element,
      h("div.ex-g-card-head", h("strong", title), close),
      ...(meaning ? [h("p.ex-g-meaning", meaning)] : []),
      h(
        "dl", ...facts.flatMap(fact => [h("dt", fact.name), h("dd", this.#value(fact))]),
        ...(guessed ? [h("dt", "Inferred"), h("dd", `where it is from: ${guessed}`)] : []),
      ),
    );
  }

  /** Puts it beside a point of what holds it, where there is room. */
  place(x: number, y: number): void {
    const holder = this.element.parentElement;
    if (!holder) return;
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = x + 18 + width < holder.clientWidth ? x + 18 : Math.max(4, x - width - 12);
    const top = Math.max(4, Math.min(y + 14, holder.clientHeight - height - 4));
    Object.assign(this.element.style, { left: `${left}px`, top: `${top}px` });
  }

  #value({ text, pane, what, why }: Fact): Node | string {
    if (!this.#closable) return text;
    if (why) return because(why, this.#context);
    if (pane === undefined || what === undefined) return text;
    return button("ex-link", text, () => this.#context.show(pane, what));
  }
}
