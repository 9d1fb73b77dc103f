// Reasons: as they stand in a pane, and their catalogue: what each means, what one can do, and where this record names
// it.

import { button, h } from "./dom";
import { key } from "./element";
import { entry } from "./collections";
import { halfName } from "./stages";
import type { CompileData, RecordData, WhyData } from "./record";
import type { Context } from "./pane";

interface Mention {
  readonly pane: string;
  readonly compile: string;
  /** The element's key. */
  readonly what: string;
  readonly text: string;
}

/** Where a record names a reason. */
export function mentions(record: RecordData, code: string): Mention[] {
  return record.compiles.flatMap(
    compile => [...ofCompile(compile)].filter(([named]) => named === code).map(([, mention]) => mention));
}

function* ofCompile(compile: CompileData): Iterable<[code: string, mention: Mention]> {
  const at = (pane: string, id: string,
    text: string): Mention => ({ pane, compile: compile.id, what: key(compile.id, id), text });
  for (const each of compile.breaks ?? []) {
    yield [each.why.code,
      at("breaks", each.instruction, `break at ${each.instruction}: ${each.why.detail || each.why.title}`)];
  }
  if (compile.fallback) {
    yield [compile.fallback.code,
      at("breaks", "", `${compile.id} runs eagerly: ${compile.fallback.detail || compile.fallback.title}`)];
  }
  for (const each of compile.saved ?? []) {
    yield [each.why.code,
      at("graphs", each.id, `${each.id}: ${each.kind}${each.why.detail ? `, ${each.why.detail}` : ""}`)];
  }
  for (const half of compile.halves ?? []) {
    const where = halfName(compile, half.name) ? ` (${halfName(compile, half.name)})` : "";
    for (const each of half.buffers ?? []) {
      if (each.why)
        yield [each.why.code, at("memory", each.name, `${each.name}${where}: ${each.why.detail || each.type}`)];
      if (each.where_why)
        yield [each.where_why.code,
          at("memory", each.name, `${each.name}${where}: ${each.where_why.detail || each.where || ""}`)];
    }
    for (const each of half.operations ?? []) {
      if (each.why)
        yield [each.why.code, at("schedule", each.id, `${each.id}${where}: ${each.why.detail || each.target}`)];
    }
    for (const each of half.schedule?.items ?? []) {
      if (each.why) yield [each.why.code, at("schedule", each.id, `${each.id}${where}: ${each.why.detail}`)];
    }
    for (const each of half.schedule?.fusions ?? []) {
      const verdict = each.ok ? "with" : "not with";
      yield [each.why.code, at("schedule", each.first,
        `${each.first} ${verdict} ${each.second}${where}: ${each.why.detail || each.why.title}`)];
    }
  }
}

const LISTED = 200;

/** What the reasons of a pane answer. */
const ASKED: { readonly [pane: string]: string } = {
  breaks: "Why does the graph break, or run eagerly?", schedule: "Why is it fused, or not?",
  memory: "Why is it in memory?", graphs: "Why is it saved for the backward, or recomputed?",
};
const OTHER = "Recorded during compilation; no pane shows it";

/** The catalogue's page: one reason, or all that the record names where `code` is "". */
export function page(record: RecordData, code: string, go: (mention: Mention) => void,
    open: (code: string) => void): HTMLElement {
  const reasons = record.reasons ?? [];
  const reason = reasons.find(each => each.code === code);
  if (code && !reason) return h("p", `This record does not explain the reason “${code}”.`);
  if (!reason) {
    const groups = new Map<string, HTMLElement[]>();
    for (const each of reasons) {
      const named = mentions(record, each.code);
      const row = h("tr", h("td", button("ex-link", each.title, () => open(each.code))), h("td", h("code", each.code)),
        h("td", String(named.length)));
      entry(groups, ASKED[named[0]?.pane ?? ""] ?? OTHER, () => []).push(row);
    }
    const head = () => h("tr", h("th", "Reason"), h("th", "Code"), h("th", "Occurrences"));
    return h("div",
      ...[...groups].flatMap(
        ([asked, rows]) => [h("h3", asked), h("table.ex-table", h("thead", head()), h("tbody", ...rows))]));
  }
  const named = mentions(record, code);
  const rows = named.slice(0, LISTED).map(each =>
    h("li", button("ex-link", `${each.compile}: ${each.text}`, () => go(each))));
  return h(
    "div",
    h("p", h("code", reason.code)),
    h("h3", "What it means"), h("p", reason.meaning),
    reason.hint ? h("h3", "What you can do") : null, reason.hint ? h("p", reason.hint) : null,
    h("h3", `In this record (${named.length})`),
    named.length ? h("ul.ex-list", ...rows) : h("p", `${OTHER}.`),
    named.length > LISTED ? h("p", `${named.length - LISTED} more are not listed.`) : null,
    h("p", button("ex-link", "All reasons in this record", () => open(""))),
  );
}

export function reasonLink(why: WhyData, context: Pick<Context, "reason">): HTMLElement {
  const title = button("ex-reason", why.title, () => context.reason(why.code), { title: why.code });
  return h("span.ex-why", title, why.detail ? h("span.ex-detail", why.detail) : null);
}

export function reasonText(why: WhyData | null | undefined): string {
  return why ? (why.detail ? `${why.title}: ${why.detail}` : why.title) : "";
}
