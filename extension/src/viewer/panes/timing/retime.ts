// The controls of a live kernel: sizes to time again with, and what is under way.

import { aria, button, fill, h } from "../../dom";
import { bytes, phrase } from "../../format";
import type { Abilities } from "../../protocol";
import { positionOf, positions, Sizes, sizeAt, type Dim } from "./sizes";
import type { TimedRun, Shapes } from "./runs";

export interface Asks {
  retime(shapes: Shapes): void;
  stop(): void;
}

const MUCH = 2 ** 31;

export function RetimeForm(made: () => string, asks: Asks) {
  const element = h("section.ex-picture.ex-retime");
  let sizes = Sizes([]);
  const status = h("span.ex-doing", { role: "status" });
  const start = button("ex-action", "Measure again", () => asks.retime(sizes.shapes.value));
  const stop = button("ex-action", "Stop", () => asks.stop());
  const inputs: { readonly of: Dim; readonly slider: HTMLInputElement; readonly number: HTMLInputElement }[] = [];
  const total = h("span.ex-count");
  /** What was told last: sizes that were chosen stay where the same is told again. */
  let lastState = "";
  let running: TimedRun | undefined;

  /** What the kernel can do: null where it has not said, or where there is none. */
  function show(abilities: Abilities | null, connected: boolean): void {
    const state = JSON.stringify([abilities, connected]);
    if (state === lastState) return;
    lastState = state;
    inputs.length = 0;
    const title = h("header", h("h2", "Measure again"));
    if (!connected) {
      fill(element, title,
        h("p.ex-say",
          `No Jupyter kernel is attached: the times are those recorded ${made()}. Run the cell again to measure with `
            + `other sizes.`));
      return;
    }
    if (!abilities?.retime) {
      fill(element, title,
        h("p.ex-say", abilities?.why_not ? `This cannot be measured again: ${abilities.why_not}.`
          : "The Jupyter kernel does not say yet what it can measure."));
      return;
    }
    sizes = Sizes(abilities.arguments ?? []);
    const tie = h("input", { type: "checkbox", checked: true, onchange: () => (sizes.tied.value = tie.checked) });
    const reset = button("ex-action", "Reset the sizes", () => sizes.reset());
    fill(element,
      title,
      h("div.ex-sizes", ...sizes.args.map(each => argument(each.name, each.dtype, each.shape))),
      h("label.ex-check", tie, "keep equal sizes equal"),
      h("div.ex-actions", start, ...(abilities.stop ? [stop] : []), reset, total, status),
    );
    sizes.shapes.watch(follow);
    tell(running);
  }

  /** What is under way. */
  function tell(run: TimedRun | undefined): void {
    running = run;
    start.disabled = run !== undefined;
    stop.disabled = run === undefined;
    const counted = run ? [...run.samples].map(([name, samples]) => `${name} ${samples.length}`).join(", ") : "";
    status.textContent = run ? phrase([run.doing, counted ? `samples: ${counted}` : ""], "; ") : "";
  }

  function argument(name: string, dtype: string, shape: readonly number[]): HTMLElement {
    const dims = shape.map((size, dim) => {
      const of = { argument: name, dim };
      const label = `${name}, size ${dim}`;
      const slider = h("input", {
        type: "range", min: 0, max: positions(size), step: 1, "aria-label": `${label}, by powers of two`,
        oninput: () => sizes.set(of, sizeAt(Number(slider.value))),
      });
      const number = h("input.ex-field",
        { type: "number", min: 1, "aria-label": label, onchange: () => sizes.set(of, Number(number.value)) });
      inputs.push({ of, slider, number });
      return h("div.ex-size", h("span.ex-count", String(dim)), slider, number);
    });
    return h("fieldset", h("legend", h("code", name), ` ${dtype}`),
      ...(dims.length ? dims : [h("span.ex-count", "a single number")]));
  }

  function follow(shapes: Shapes): void {
    for (const { of, slider, number } of inputs) {
      const size = shapes[of.argument]?.[of.dim] ?? 1;
      if (document.activeElement !== slider) slider.value = String(positionOf(size));
      aria(slider, "valuetext", size);
      number.value = String(size);
    }
    const all = sizes.bytes;
    total.textContent = `inputs of ${bytes(all)}${all > MUCH ? ": this may not fit into memory" : ""}`;
  }

  return { element, show, tell };
}

export type RetimeForm = ReturnType<typeof RetimeForm>;
