// The controls of a live kernel: sizes to time again with, and what is under way.

import { aria, button, fill, h } from "../../dom";
import { bytes, phrase } from "../../format";
import type { Abilities } from "../../protocol";
import { positionOf, positions, Sizes, sizeAt, type Dim } from "./sizes";
import type { Run, Shapes } from "./runs";

export interface Asks {
  retime(shapes: Shapes): void;
  stop(): void;
}

const MUCH = 2 ** 31;

export class Retime {
  readonly element = h("section.ex-picture.ex-retime");
  #sizes = new Sizes([]);
  readonly #status = h("span.ex-doing", { role: "status" });
  readonly #start = button("ex-action", "Time again", () => this.#asks.retime(this.#sizes.shapes.value));
  readonly #stop = button("ex-action", "Stop", () => this.#asks.stop());
  readonly #inputs: { readonly of: Dim; readonly slider: HTMLInputElement; readonly number: HTMLInputElement }[] = [];
  readonly #total = h("span.ex-count");
  /** What was told last: sizes that were chosen stay where the same is told again. */
  #said = "";
  #running: Run | undefined;
  readonly #made: () => string;
  readonly #asks: Asks;

  constructor(made: () => string, asks: Asks) {
    this.#made = made;
    this.#asks = asks;
  }

  /** What the kernel can do: null where it has not said, or where there is none. */
  show(abilities: Abilities | null, connected: boolean): void {
    const said = JSON.stringify([abilities, connected]);
    if (said === this.#said) return;
    this.#said = said;
    this.#inputs.length = 0;
    const title = h("header", h("h2", "Time again"));
    if (!connected) {
      fill(this.element, title, h("p.ex-say", `No Jupyter kernel is attached: this is the record as it was made ${this.#made()}. Run the cell again to time with other sizes.`));
      return;
    }
    if (!abilities?.retime) {
      fill(this.element, title, h("p.ex-say", abilities?.why_not ? `This cannot be timed again: ${abilities.why_not}.` : "The Jupyter kernel has not said what it can time."));
      return;
    }
    this.#sizes = new Sizes(abilities.arguments ?? []);
    const tie = h("input", { type: "checkbox", checked: true, onchange: () => (this.#sizes.tied.value = tie.checked) });
    const reset = button("ex-action", "Sizes as they were", () => this.#sizes.reset());
    fill(this.element,
      title,
      h("div.ex-sizes", ...this.#sizes.args.map(each => this.#argument(each.name, each.dtype, each.shape))),
      h("label.ex-check", tie, "sizes that were equal move together"),
      h("div.ex-actions", this.#start, ...(abilities.stop ? [this.#stop] : []), reset, this.#total, this.#status),
    );
    this.#sizes.shapes.watch(shapes => this.#follow(shapes));
    this.tell(this.#running);
  }

  /** What is under way. */
  tell(run: Run | undefined): void {
    this.#running = run;
    this.#start.disabled = run !== undefined;
    this.#stop.disabled = run === undefined;
    const counted = run ? [...run.samples].map(([name, samples]) => `${name} ${samples.length}`).join(", ") : "";
    this.#status.textContent = run ? phrase([run.doing, counted ? `samples: ${counted}` : ""], "; ") : "";
  }

  #argument(name: string, dtype: string, shape: readonly number[]): HTMLElement {
    const dims = shape.map((size, dim) => {
      const of = { argument: name, dim };
      const label = `${name}, size ${dim}`;
      const slider = h("input", {
        type: "range", min: 0, max: positions(size), step: 1, "aria-label": `${label}, by powers of two`, oninput: () => this.#sizes.set(of, sizeAt(Number(slider.value))),
      });
      const number = h("input.ex-field", { type: "number", min: 1, "aria-label": label, onchange: () => this.#sizes.set(of, Number(number.value)) });
      this.#inputs.push({ of, slider, number });
      return h("div.ex-size", h("span.ex-count", String(dim)), slider, number);
    });
    return h("fieldset", h("legend", h("code", name), ` ${dtype}`), ...(dims.length ? dims : [h("span.ex-count", "a single number")]));
  }

  #follow(shapes: Shapes): void {
    for (const { of, slider, number } of this.#inputs) {
      const size = shapes[of.argument]?.[of.dim] ?? 1;
      if (document.activeElement !== slider) slider.value = String(positionOf(size));
      aria(slider, "valuetext", size);
      number.value = String(size);
    }
    const all = this.#sizes.bytes;
    this.#total.textContent = `inputs of ${bytes(all)}${all > MUCH ? ": this may not fit into memory" : ""}`;
  }
}
