// The choices above the graph: which one, how it is shown, grouped and colored.

import { choices } from "../../choices";
import { button, fill, h, on, tool } from "../../dom";
import { phrase } from "../../format";
import { type MenuItem, menuButton } from "../../overlays";
import type { Context } from "../../pane";
import type { Signal } from "../../signal";
import type { Grouping } from "./groups";
import { COLORINGS, type Coloring } from "./paint";
import type { GraphView } from "./views";

const SHOWN = { drawing: "Drawing", table: "Table", text: "Text" } as const;
export type Toggle = keyof typeof SHOWN;

const GROUPINGS: { readonly [by in Grouping]: string } =
  { module: "Group by module, or by kernel where there is none", kernel: "Group by kernel", none: "No groups" };

export interface Settings {
  readonly shown: Signal<Toggle>;
  readonly by: Signal<Grouping>;
  readonly coloring: Signal<Coloring>;
  readonly changes: Signal<boolean>;
  readonly saved: Signal<boolean>;
  readonly withEager: Signal<boolean>;
  readonly legend: Signal<boolean>;
}

/** The settings with what was remembered, as far as it can still be chosen. */
export function settingsOf(context: Pick<Context, "setting">): Settings {
  const one = <T extends string>(name: string, choices: { readonly [name in T]: string }, initial: T): Signal<T> => {
    const signal = context.setting<T>(name, initial);
    if (!(signal.value in choices)) signal.value = initial;
    return signal;
  };
  return {
    shown: one<Toggle>("shown", SHOWN, "drawing"), by: one<Grouping>("by", GROUPINGS, "module"),
    coloring: one<Coloring>("coloring", COLORINGS, "operation"),
    changes: context.setting<boolean>("changes", true), saved: context.setting<boolean>("saved", false),
    withEager: context.setting<boolean>("withEager", false), legend: context.setting<boolean>("legend", true),
  };
}

/** What can be chosen for the view that is shown. */
export interface Offer {
  readonly views: readonly GraphView[];
  readonly view: GraphView | undefined;
  /** What the last pass did, "+2 −9", by view; "" for nothing. */
  readonly did: ReadonlyMap<string, string>;
  /** Whether the pass before the view changed anything. */
  readonly changed: boolean;
  readonly hasSaved: boolean;
  readonly eager: boolean;
}

export function Toolbar(
  settings: Settings, choose: (id: string) => void, all: (open: boolean) => void, change: () => void,
) {
  const viewSelect = h("select.ex-select", { "aria-label": "Graph" });
  let offered: Offer | null = null;
  const step = (by: number) => () => {
    const option = viewSelect.options[viewSelect.selectedIndex + by];
    if (option) choose(option.value);
  };
  const back = tool("◂", "The graph before", step(-1));
  const turned = tool("▸", "The graph after", step(1));
  on(viewSelect, "change", () => choose(viewSelect.value));
  const next = button("ex-button", "Next change", change, { title: "Go to the next node that the pass changed" });
  const shown = choices("Shown as", Object.entries(SHOWN), settings.shown);
  const more = menuButton("Groups, colors and marks", "View", () => items(settings, all), "View");
  const element = h("div.ex-bar", h("span.ex-g-stepper", back, viewSelect, turned), shown.element, next, more);

  function offer(offer: Offer): void {
    const { views, view, did, changed } = (offered = offer);
    const options = views.map(each => {
      const what = phrase([[each.title, "captured"].includes(each.kind) ? "" : each.kind, did.get(each.id) ?? ""],
        ", ");
      return h("option", { value: each.id }, each.title + (what && ` (${what})`));
    });
    element.hidden = views.length === 0;
    fill(viewSelect, ...options);
    viewSelect.value = view?.id ?? "";
    back.disabled = viewSelect.selectedIndex <= 0;
    turned.disabled = viewSelect.selectedIndex >= views.length - 1;
    next.hidden = !changed;
  }

  function items({ shown, by, coloring, changes, saved, withEager, legend }: Settings,
      all: (open: boolean) => void): MenuItem[] {
    const one = <T extends string>(labels: { readonly [name in T]: string }, chosen: Signal<T>) =>
      (Object.entries(labels) as [T, string][]).map(
        ([name, label]): MenuItem => ({ label, checked: chosen.value === name, run: () => (chosen.value = name) }));
    const toggle = (label: string, signal: Signal<boolean>): MenuItem => ({ label, checked: signal.value,
      run: () => (signal.value = !signal.value) });
    const { view, hasSaved, eager } = offered ?? {};
    return [
      ...(shown.value === "drawing" ? [
        ...one(GROUPINGS, by), { label: "Open all groups that stay readable", run: () => all(true) },
        { label: "Close all groups", run: () => all(false) },
        ...one(COLORINGS, coloring), toggle("Legend of colors and marks", legend),
      ] : []),
      ...(view?.before ? [toggle("Mark what the pass changed", changes)] : []),
      ...(hasSaved ? [toggle("List what is saved for the backward", saved)] : []),
      ...(eager ? [toggle("Eager's autograd graph beside this one", withEager)] : []),
    ];
  }

  return { element, offer, dispose: shown.end };
}
