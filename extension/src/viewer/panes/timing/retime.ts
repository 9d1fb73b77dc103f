// The controls of a live kernel: sizes to time again with, one slider for each dimension, of which those that were
// equal move together; and what is under way.

import { aria, button, fill, h } from "../../dom";
import { bytes, phrase } from "../../format";
import type { Abilities, SizedArgument } from "../../protocol";
import type { TimedRun, Shapes } from "./runs";
import { Signal } from "../../signal";

interface Asks {
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

interface Dim {
  readonly argument: string;
  readonly dim: number;
}

const LARGEST_SIZE = 2 ** 24;

export function Sizes(args: readonly SizedArgument[]) {
  /** Sizes that were equal at first, and more than 1, keep being equal: most programs ask for it. */
  const tied = new Signal(true);
  const original = (): Shapes => Object.fromEntries(args.map(each => [each.name, each.shape]));
  const reset = () => (shapes.value = original());
  const originally = (which: Dim): number => args.find(each => each.name === which.argument)?.shape[which.dim] ?? 1;
  const shapes = new Signal(original());

  function set(which: Dim, size: number): void {
    const wanted = Math.min(Math.max(Math.round(size), 1), LARGEST_SIZE);
    if (!Number.isFinite(wanted)) return;
    const original = originally(which);
    const moves = (argument: SizedArgument, dim: number) =>
      (argument.name === which.argument && dim === which.dim)
      || (tied.value && original > 1 && argument.shape[dim] === original);
    shapes.value = Object.fromEntries(args.map(argument => {
      const now = shapes.value[argument.name] ?? argument.shape;
      return [argument.name, now.map((old, dim) => (moves(argument, dim) ? wanted : old))];
    }));
  }

  /** Bytes of all arguments at these sizes. */
  function bytes(): number {
    return args.reduce(
      (sum, each) => sum + bytesOf(each.dtype) * (shapes.value[each.name] ?? []).reduce((a, b) => a * b, 1), 0);
  }

  return { shapes, tied, original, set, reset, args, get bytes() { return bytes(); } };
}

/** A slider's positions are powers of two, four between each two: from 1 to 16 times the size, at least 4096. */
export function positions(original: number): number {
  return Math.ceil(4 * Math.log2(Math.max(4096, Math.min(original * 16, LARGEST_SIZE))));
}

export const sizeAt = (position: number): number => Math.round(2 ** (position / 4));

export const positionOf = (size: number): number => Math.round(4 * Math.log2(Math.max(size, 1)));

const bytesOf = (dtype: string): number => (dtype.includes("bool") ? 1 : Number(/(\d+)/.exec(dtype)?.[1] ?? 32) / 8);
