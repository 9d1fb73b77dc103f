// What a person feels of a large compile while its stages stream in: the longest frames, in milliseconds into
// STREAM_FIGURES.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Bare, barePage } from "../e2e/bare";
import { launch } from "../e2e/browser";
import type { RecordData } from "../src/viewer/record";

const PAGES = process.env["PAGES"] ?? "";
const FIGURES = process.env["STREAM_FIGURES"] ?? "";

interface Frames {
  /** While stages stream in. */
  readonly streaming: readonly number[];
  /** When the whole record takes their place. */
  readonly whole: readonly number[];
}

test("frames while the stages of a training step stream in", { timeout: 180_000 }, async () => {
  assert.ok(PAGES && FIGURES, "run `python -m benchmarks viewer`");
  const record = JSON.parse(readFileSync(join(PAGES, "training.explore.json"), "utf8")) as RecordData;
  const browser = await launch();
  try {
    const { page, errors } = await barePage(browser);
    const frames = await page.evaluate(async ([whole]): Promise<Frames> => {
      const bare = window as unknown as Bare;
      const wait = (ms: number) => new Promise(done => setTimeout(done, ms));
      let taken: number[] = [];
      let [on, last] = [true, performance.now()];
      const frame = (now: number) => {
        taken.push(now - last);
        last = now;
        if (on) requestAnimationFrame(frame);
      };
      bare.mount({ ...whole, compiles: [], sources: [], timing: null });
      await wait(500);
      last = performance.now();
      requestAnimationFrame(frame);
      for (const compile of whole.compiles) {
        const head = { id: compile.id, title: compile.title, started: compile.started, seconds: 0 };
        for (const stage of compile.stages ?? []) {
          bare.say({ type: "running", compile: compile.id, stage: stage.name });
          await wait(Math.min(stage.seconds * 1000, 300));
          bare.say({ type: "stage", compile: head, stage });
        }
      }
      await wait(500);
      const streaming = taken;
      taken = [];
      bare.update(whole);
      bare.say({ type: "done" });
      await wait(1500);
      on = false;
      return { streaming, whole: taken };
    }, [record] as const);
    const worst = (of: readonly number[]) => Math.max(...of);
    const long = frames.streaming.filter(each => each > 50).map(Math.round).sort((a, b) => b - a);
    console.log(
      `frames over 50 ms while streaming: ${long.join(" ") || "none"}; at the end: ${frames.whole.filter(each => each > 50).map(Math.round).join(" ") || "none"}`);
    writeFileSync(FIGURES,
      JSON.stringify({ stream_worst: worst(frames.streaming), stream_whole: worst(frames.whole) }));
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
  }
});
