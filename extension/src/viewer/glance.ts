// The answer at a glance: what came of it, each part a button that leads to the pane which tells more.

import { button, h } from "./dom";
import { own } from "./collections";
import type { PartData } from "./record";

/** Signs and colors of states; a state that is not here is not known. */
const LOOKS: { readonly [state: string]: readonly [sign: string, color: string] } = {
  ok: ["✓", "--ex-fg"], attention: ["⚠", "--ex-warn"], wrong: ["✗", "--ex-error"],
};

/** What a part says, after the sign of its state. */
export const signed = ({ state, said }: PartData): string => `${(own(LOOKS, state) ?? ["?"])[0]} ${said}`;

/** A row for each engine, of two with equal columns, where what is in brackets shows on hover; `lead` is told which
 * part was pressed. */
export function glance(parts: readonly PartData[], lead: (part: PartData) => void): HTMLElement {
  const engines = new Set(parts.map(engineOf));
  const several = [...engines].filter(each => each).length > 1;
  const columns = new Set(parts.filter(each => !several || each.engine).map(each => each.what));
  const rows = [...engines].map(engine => {
    const theirs = parts.filter(each => engineOf(each) === engine);
    const named = several ? engine : "";
    const places = named ? columns : new Set(theirs.map(each => each.what));
    const cells = [...places].map(
      what => h("div", ...theirs.filter(each => each.what === what).map(part => shown(part, lead, named !== ""))));
    return h("div", { class: named && "ex-engine", role: "group", "aria-label": `At a glance ${named}` },
      named ? h("strong", named) : null, ...cells);
  });
  const strip = h("div", { class: `ex-glance${several ? " ex-several" : ""}` }, ...rows);
  strip.style.setProperty("--ex-columns", String(columns.size + 1));
  return strip;
}

function shown(part: PartData, lead: (part: PartData) => void, short: boolean): HTMLElement {
  const partText = signed(part);
  const made = button("ex-link ex-part", short ? partText.replace(/ \([^()]*\)/g, "") : partText, () => lead(part),
    { title: partText });
  made.style.color = `var(${own(LOOKS, part.state)?.[1] ?? "--ex-fg2"})`;
  return made;
}

const engineOf = (part: PartData): string => part.engine ?? "";
