// What the viewer's page holds in words: what each pane shows and the terms that it uses
// (explorer/show/view/panes.json and glossary.json), and the keys.

import { h } from "./dom";

export interface Texts {
  readonly panes: { readonly [pane: string]: {
    readonly text: string; readonly paper?: string; readonly stock?: string;
    readonly terms: readonly string[];
  } };
  /** Of the glossary's terms, of columns of tables among them, in lower case. */
  readonly meanings: { readonly [term: string]: string };
  readonly keys: readonly (readonly [keys: string, what: string])[];
}

export const textsOf = (page: string): Texts => JSON.parse(page.split(' id="texts">')[1]!.split("</script>")[0]!);

export function about(pane: string, { panes, meanings }: Texts): HTMLElement[] {
  const { text, paper = "", stock = "", terms } = panes[pane]!;
  const facts = [["In the PyTorch 2 paper (Ansel et al. 2024)", paper], ["In stock torch", stock],
    ...terms.map(term => [term, meanings[term]!] as const)] as const;
  const rows = facts.flatMap(([name, meaning]) => (meaning ? [h("dt", name), h("dd", meaning)] : []));
  return [h("p", text), h("dl.ex-facts", ...rows)];
}

/** A column's header says what the column holds when it is pointed at. It does not without the page: `?` says why. */
export function explainColumns(root: HTMLElement, page: () => Promise<string>): void {
  let meanings: Promise<Texts["meanings"]> | null = null;
  root.onpointerover = ({ target }) => {
    const header = (target as Element).closest<HTMLElement>("th[scope=col]:not([title])");
    if (!header) return;
    meanings ??= page().then(text => textsOf(text).meanings);
    const name = header.textContent.replace(/ [▾▴]$/, "").toLowerCase();
    void meanings.then(found => found[name] && (header.title = found[name])).catch(() => (meanings = null));
  };
}

export function helpPage({ keys }: Texts): HTMLElement {
  const rows = keys.map(([keys, what]) => h("tr", h("td", h("kbd", keys)), h("td", what)));
  const head = h("tr", h("th", "Keys"), h("th", "What they do"));
  return h("table.ex-table", h("thead", head), h("tbody", ...rows));
}
