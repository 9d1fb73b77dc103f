// The line under the header: what a live compile is at, how it ended, and what the record says went wrong.

import { h } from "./dom";
import type { Activity, Follower } from "./follow";
import type { Context } from "./pane";
import type { Dispose } from "./signal";

const TICK = 100;
const SIGNS = { failed: "✗", warned: "⚠", told: "ℹ" } as const;

export class Status {
  readonly element = h("div", { class: "ex-status" });
  private readonly activity = h("div", { class: "ex-activity" });
  private readonly spoken = h("span", { class: "ex-hidden", role: "status" });
  private readonly notices = h("div", { class: "ex-notices" });
  private readonly disposers: Dispose[] = [];
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor(private readonly context: Context, private readonly follower: Follower) {
    this.element.append(this.activity, this.notices, this.spoken);
    const notices = () => this.showNotices();
    this.disposers.push(
      follower.activity.watch(activity => this.follow(activity)),
      follower.ended.watch(notices), context.model.record.watch(notices), context.compile.watch(notices),
    );
  }

  dispose(): void {
    clearInterval(this.timer);
    this.disposers.forEach(dispose => dispose());
  }

  private follow(activity: Activity | null): void {
    clearInterval(this.timer);
    this.activity.hidden = activity === null;
    this.spoken.textContent = activity ? doing(activity) : "";
    if (!activity) return;
    const elapsed = h("span", { class: "ex-elapsed" });
    const stop = h("button", {
      type: "button", class: "ex-button", onclick: () => this.context.host.live.value?.send({ type: "stop" }),
    }, "Stop");
    this.activity.replaceChildren(h("span", { class: "ex-spinner", "aria-hidden": "true" }), doing(activity), elapsed, ...(this.follower.abilities.value?.stop ? [stop] : []));
    const tick = () => (elapsed.textContent = `for ${((performance.now() - activity.since) / 1000).toFixed(1)} s`);
    tick();
    this.timer = setInterval(tick, TICK);
  }

  private showNotices(): void {
    const record = this.context.model.record.value;
    const compile = this.context.model.compile(this.context.compile.value);
    const rows: HTMLElement[] = [];
    const notice = (kind: keyof typeof SIGNS, title: string, text: string, ...more: readonly HTMLElement[]) =>
      rows.push(h("div", { class: `ex-notice ex-${kind}`, role: "note" }, h("strong", {}, `${SIGNS[kind]} ${title}`), h("span", {}, text), ...more));
    const ended = this.follower.ended.value?.error;
    if (ended) notice("failed", `It did not finish: ${ended}`, "What had been recorded by then is shown. Run the cell again for the rest.");
    if (record.error) notice("failed", "The run failed.", record.error);
    const failed = compile?.stages?.find(each => each.error);
    if (compile?.error) notice("failed", `The compile of ${compile.title} failed.`, compile.error);
    else if (failed) notice("failed", `Stage ${failed.name} failed.`, failed.error ?? "");
    const fallback = compile?.fallback;
    if (fallback) {
      const link = h("button", { type: "button", class: "ex-link", onclick: () => this.context.reason(fallback.code) }, "Why, and what to do");
      notice("warned", "Compiled code is not what ran: this graph runs eagerly.", `${fallback.title}${fallback.detail ? `: ${fallback.detail}` : ""}.`, link);
    }
    const notes = record.notes ?? [];
    if (notes.length > 0) notice("told", "Left out of this record:", notes.join("\n"));
    this.notices.replaceChildren(...rows);
  }
}

function doing({ compile, stage, what }: Activity): string {
  if (!stage) return what || "Working";
  return `${compile}: ${stage}${what ? `, ${what}` : ""}`;
}
