// A reason as it stands in a pane: its title leads to the catalogue, its particulars follow.

import { button, h } from "./dom";
import type { Context } from "./pane";
import type { WhyData } from "./record";

export function reasonLink(why: WhyData, context: Pick<Context, "reason">): HTMLElement {
  const title = button("ex-reason", why.title, () => context.reason(why.code), { title: why.code });
  return h("span.ex-why", title, why.detail ? h("span.ex-detail", why.detail) : null);
}

export function reasonText(why: WhyData | null | undefined): string {
  return why ? (why.detail ? `${why.title}: ${why.detail}` : why.title) : "";
}
