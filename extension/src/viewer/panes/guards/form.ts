// A form that describes a call: one group of fields for each input, starting from the values seen at capture.

import { aria, button, fill, h, on } from "../../dom";
import { count, phrase } from "../../format";
import type { GlobalStateData, InputData, TensorFactsData } from "../../record";
import {
  contiguous, DTYPES, isContiguous, type InputKind, KINDS, kindOf, Mistyped, ofKind, parseConstant, parseSizes, resized,
  writtenSizes,
} from "./described";

export interface CallChanges {
  input(changed: InputData): void;
  state(changed: GlobalStateData): void;
  reset(source: string): void;
}

const MOST_OPEN = 8;

/** The first `open` inputs are shown at once (not more than a few), the rest when asked for. */
export function form(
  inputs: readonly InputData[], open: number, state: GlobalStateData | null, isChanged: (source: string) => boolean,
  changes: CallChanges,
): HTMLElement {
  const shown = Math.min(Math.max(open, 1), MOST_OPEN);
  const groups = inputs.map(input => () => group(input, isChanged, changes));
  return h(
    "div.ex-form", ...groups.slice(0, shown).map(make => make()),
    folded(`${count(groups.length - shown, "more value")} that guards ask about`, groups.slice(shown)),
    state ? folded("Global state", [() => stateGroup(state, changes)]) : null,
  );
}

/** Parts that are made when they are first opened. */
function folded(name: string, parts: readonly (() => HTMLElement)[]): HTMLElement | null {
  if (parts.length === 0) return null;
  const details = h("details", h("summary", name));
  on(details, "toggle", () => details.append(h("div.ex-form", ...parts.map(make => make()))), { once: true });
  return details;
}

/** The fields of one input; they are made again where its kind is changed. */
function group(seen: InputData, isChanged: (source: string) => boolean, changes: CallChanges): HTMLElement {
  const element = h("fieldset.ex-input");
  const refill = (input: InputData) => {
    const kind = select("Kind", KINDS, kindOf(input), value => {
      const next = ofKind(input, value as InputKind);
      changes.input(next);
      refill(next);
      element.querySelector<HTMLElement>("select")?.focus();
    });
    const back = button("ex-link", "Reset this", () => {
      changes.reset(seen.source);
      refill(seen);
      element.querySelector<HTMLElement>("select")?.focus();
    });
    const send = (next: InputData) => {
      input = next;
      changes.input(next);
      mark();
    };
    const mark = () => {
      element.classList.toggle("ex-changed", isChanged(seen.source));
      back.hidden = !isChanged(seen.source);
    };
    const roleText = phrase([seen.role && seen.role !== "argument" ? seen.role : "",
      seen.same_as ? `the same object as ${seen.same_as}` : ""], ", ");
    fill(element,
      h("legend", h("code", seen.source), roleText ? h("span.ex-count", ` ${roleText}`) : null),
      h("div.ex-fields", ...labeled("kind", kind), ...fieldsOf(input, send)), back,
    );
    mark();
  };
  refill(seen);
  return element;
}

function fieldsOf(input: InputData, send: (next: InputData) => void): HTMLElement[] {
  const kind = kindOf(input);
  switch (kind) {
    case "tensor": return input.tensor ? tensorFields(input, input.tensor, send) : [];
    case "int": case "float": case "str":
      return labeled("value",
        text("Value", kind === "str" ? String(input.constant?.value ?? "") : (input.constant?.text ?? ""),
          typed => send({ ...input, constant: parseConstant(kind, typed) })));
    case "bool":
      return labeled("value", select("Value", ["True", "False"], input.constant?.text ?? "False",
        value => send({ ...input, constant: parseConstant("bool", value) })));
    case "list": case "tuple":
      return labeled("length",
        text("Length", String(input.length ?? 0), typed => send({ ...input, length: parseSizes(typed)[0] ?? 0 })));
    case "dict":
      return labeled("keys",
        text("Keys", (input.keys ?? []).map(each => String(each.value ?? each.text)).join(", "), typed => {
        const keys = typed.split(",").map(each => each.trim()).filter(Boolean);
        send({ ...input, keys: keys.map(each => parseConstant("str", each)), length: keys.length });
      }));
    case "None": return [];
    case "object": return labeled("class", h("code", input.type || "unknown"));
  }
}

function tensorFields(input: InputData, facts: TensorFactsData, send: (next: InputData) => void): HTMLElement[] {
  const put = (changed: Partial<TensorFactsData>) => {
    facts = { ...facts, ...changed };
    send({ ...input, tensor: facts, same_as: "" });
  };
  const strides = text("Strides", facts.strides ? (isContiguous(facts) ? "" : writtenSizes(facts.strides)) : "",
    typed => {
    const wanted = typed.trim() === "" ? contiguous(facts.sizes) : parseSizes(typed);
    if (wanted.length !== facts.sizes.length)
      throw new Mistyped(`expected ${facts.sizes.length} strides, one for each size`);
    put({ strides: wanted });
  });
  strides.querySelector("input")?.setAttribute("placeholder", "contiguous");
  const grad = h("input", { type: "checkbox", checked: facts.requires_grad ?? false, "aria-label": "requires_grad",
    onchange: () => put({ requires_grad: grad.checked }) });
  const dtypes: readonly string[] = DTYPES.includes(facts.dtype as (typeof DTYPES)[number])
    ? DTYPES : [facts.dtype, ...DTYPES];
  return [
    ...labeled("shape", text("Shape", writtenSizes(facts.sizes), typed => put(resized(facts, parseSizes(typed))))),
    ...labeled("strides", strides),
    ...labeled("dtype", select("dtype", dtypes, facts.dtype, dtype => put({ dtype }))),
    ...labeled("device", text("Device", facts.device, typed => {
      if (!/^[a-z]+(:\d+)?$/.test(typed.trim())) throw new Mistyped("expected a device such as cpu or cuda:0");
      put({ device: typed.trim() });
    })),
    ...labeled("requires_grad", grad),
  ];
}

function stateGroup(seen: GlobalStateData, changes: CallChanges): HTMLElement {
  let state = seen;
  const put = (changed: Partial<GlobalStateData>) => {
    state = { ...state, ...changed };
    changes.state(state);
  };
  const check = (label: string, is: boolean, of: (is: boolean) => Partial<GlobalStateData>) => {
    const box =
      h("input", { type: "checkbox", checked: is, "aria-label": label, onchange: () => put(of(box.checked)) });
    return labeled(label, box);
  };
  return h(
    "fieldset.ex-input", h("legend", "Global state"),
    h(
      "div.ex-fields",
      ...check("grad mode", seen.grad_enabled, grad_enabled => ({ grad_enabled })),
      ...labeled("autocast", text("Autocast", (seen.autocast ?? []).join(", "),
        typed => put({ autocast: typed.split(",").map(each => each.trim()).filter(Boolean) }))),
      ...labeled("default dtype", select("Default dtype", ["float32", "float64", "float16", "bfloat16"],
        seen.default_dtype ?? "float32", default_dtype => put({ default_dtype }))),
      ...check("deterministic", seen.deterministic ?? false, deterministic => ({ deterministic })),
      ...labeled("threads",
        text("Threads", String(seen.threads ?? 1), typed => put({ threads: parseSizes(typed)[0] ?? 1 }))),
    ),
  );
}

function labeled(name: string, field: HTMLElement): HTMLElement[] {
  return [h("span.ex-count", { "aria-hidden": true }, name), field];
}

function select(label: string, options: readonly string[], value: string,
    change: (value: string) => void): HTMLSelectElement {
  const element = h("select.ex-field", { "aria-label": label, onchange: () => change(element.value) });
  element.append(...options.map(each => h("option", { value: each, selected: each === value }, each)));
  return element;
}

/** A field for what is typed: `take` refuses with Mistyped, and the message stands below the field. */
function text(label: string, value: string, take: (typed: string) => void): HTMLElement {
  const wrong = h("span.ex-wrong", { role: "alert" });
  const field = h("input.ex-field", {
    type: "text", value, "aria-label": label, spellcheck: "false", oninput: () => {
      try {
        take(field.value);
        wrong.textContent = "";
      } catch (error) {
        if (!(error instanceof Mistyped)) throw error;
        wrong.textContent = error.message;
      }
      aria(field, "invalid", wrong.textContent !== "");
    },
  });
  return h("span.ex-typed", field, wrong);
}
