// The line under the header: what a live compile is at, how it ended, and what the record says went wrong.

import { button, fill, h } from "./dom";
import type { Activity, KernelUpdates } from "./kernelupdates";
import type { Live } from "./host";
import type { Context } from "./pane";
import type { RecordData } from "./record";
import { kept } from "./saving";
import { ends, watchAny } from "./signal";
import { openedRecord } from "./read";

const TICK = 100;
const SIGNS = { failed: "✗", warned: "⚠", told: "ℹ" } as const;

export function notice(kind: keyof typeof SIGNS, title: string, text: string,
    ...more: readonly HTMLElement[]): HTMLElement {
  return h("div", { class: `ex-notice ex-${kind}`, role: "note" }, h("strong", `${SIGNS[kind]} ${title}`),
    h("span", text), ...more);
}

/** A record's notes. */
export function notesOf(record: RecordData, of = "this record"): HTMLElement[] {
  return record.notes?.length ? [notice("told", `Notes on ${of}:`, record.notes.join("\n"))] : [];
}

export function Status(context: Context, follower: KernelUpdates) {
  const element = h("div.ex-status");
  const activityBox = h("div.ex-activity");
  const announced = h("span.ex-hidden", { role: "status" });
  const noticeBox = h("div.ex-notices");
  let timer: ReturnType<typeof setInterval> | undefined;
  element.append(activityBox, noticeBox, announced);
  const dispose = ends(
    () => clearInterval(timer),
    follower.activity.watch(follow),
    watchAny(notices, follower.ended, context.host.live, context.model.record, context.compile),
  );

  function follow(activity: Activity | null): void {
    clearInterval(timer);
    activityBox.hidden = activity === null;
    announced.textContent = activity ? doing(activity) : "";
    if (!activity) return;
    const elapsed = h("span.ex-elapsed");
    const live = context.host.live.value;
    const stop = live && button("ex-button", "Stop",
      () => (follower.abilities.value?.stop ? live.send({ type: "stop" }) : live.interrupt()));
    fill(activityBox, h("span.ex-spinner", { "aria-hidden": "true" }), doing(activity), elapsed,
      ...(stop ? [stop] : []));
    const tick = () => (elapsed.textContent = `for ${((performance.now() - activity.since) / 1000).toFixed(1)} s`);
    tick();
    timer = setInterval(tick, TICK);
  }

  function notices(): void {
    const record = context.model.record.value;
    const compile = context.looked.value;
    const rows: HTMLElement[] = [];
    const add = (...given: Parameters<typeof notice>) => rows.push(notice(...given));
    const ended = follower.ended.value?.error;
    if (ended)
      add("failed", `It did not finish: ${ended}`, "What was recorded is shown. Run the cell again for the rest.");
    const failed = compile?.stages?.find(each => each.error);
    const errorShown = record.glance?.some(each => each.what === "error" && each.compile === compile?.id);
    if (compile?.error && !errorShown)
      add("failed", `The compile of ${compile.called || compile.title} ${compile.raises ? "raises" : "failed"}.`,
        compile.error.split("\n", 1)[0] ?? "");
    else if (failed) add("failed", `Stage ${failed.name} failed.`, failed.error ?? "");
    const fallback = compile?.fallback;
    if (fallback) {
      const link = button("ex-link", "Why, and what to do", () => context.reason(fallback.code));
      add("warned", "This graph runs eagerly: the compiled code is not used.",
        `${fallback.title}${fallback.detail ? `: ${fallback.detail}` : ""}.`, link);
    }
    const live = record.cut && context.host.live.value;
    const load = () => void kept(live as Live).then(openedRecord).then(whole => (context.model.record.value = whole),
      (error: unknown) => {
      noticeBox.append(
        notice("failed", "The rest could not be loaded:", error instanceof Error ? error.message : String(error)));
    });
    fill(noticeBox, ...rows, ...(live ? [button("ex-action", "Load all of this record from the kernel", load)] : []),
      ...notesOf(record));
  }

  return { element, dispose };
}

function doing({ compile, stage, what }: Activity): string {
  if (!stage) return what || "Working";
  return `${compile}: ${stage}${what ? `, ${what}` : ""}`;
}
