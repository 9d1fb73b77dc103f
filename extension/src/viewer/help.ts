// What the viewer's page holds in words: what each pane shows (explorer/show/view/panes.json), and the keys.

import { h } from "./dom";

export interface Texts {
  readonly panes: { readonly [pane: string]: { readonly text: string; readonly paper?: string; readonly stock?: string } };
  readonly keys: readonly (readonly [keys: string, what: string])[];
}

export const textsOf = (page: string): Texts => JSON.parse(page.split(' id="texts">')[1]!.split("</script>")[0]!);

export function about({ text, paper, stock }: Texts["panes"][string]): HTMLElement[] {
  const facts = h(
    "dl.ex-facts",
    ...(paper ? [h("dt", "In the PyTorch 2 paper (Ansel et al. 2024)"), h("dd", paper)] : []),
    ...(stock ? [h("dt", "In stock torch"), h("dd", stock)] : []),
  );
  return [h("p", text), facts];
}

export function helpPage({ keys }: Texts): HTMLElement {
  const rows = keys.map(([keys, what]) => h("tr", h("td", h("kbd", keys)), h("td", what)));
  const head = h("tr", h("th", "Keys"), h("th", "What they do"));
  return h("table.ex-table", h("thead", head), h("tbody", ...rows));
}
