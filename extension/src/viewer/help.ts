// What the viewer's page holds in words: what each pane shows and the terms that it uses
// (explorer/show/view/panes.json and glossary.json), and the keys.

import { h } from "./dom";

export interface Texts {
  readonly panes: { readonly [pane: string]: {
    readonly text: string; readonly paper?: string; readonly stock?: string;
    readonly terms: { readonly [term: string]: string };
  } };
  readonly keys: readonly (readonly [keys: string, what: string])[];
}

export const textsOf = (page: string): Texts => JSON.parse(page.split(' id="texts">')[1]!.split("</script>")[0]!);

export function about({ text, paper = "", stock = "", terms }: Texts["panes"][string]): HTMLElement[] {
  const facts = { "In the PyTorch 2 paper (Ansel et al. 2024)": paper, "In stock torch": stock, ...terms };
  const rows = Object.entries(facts).flatMap(([name, meaning]) => (meaning ? [h("dt", name), h("dd", meaning)] : []));
  return [h("p", text), h("dl.ex-facts", ...rows)];
}

export function helpPage({ keys }: Texts): HTMLElement {
  const rows = keys.map(([keys, what]) => h("tr", h("td", h("kbd", keys)), h("td", what)));
  const head = h("tr", h("th", "Keys"), h("th", "What they do"));
  return h("table.ex-table", h("thead", head), h("tbody", ...rows));
}
