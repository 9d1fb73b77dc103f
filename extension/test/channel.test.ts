import assert from "node:assert/strict";
import { test } from "node:test";
import { Channel } from "../src/lab/live";
import type { ToPage } from "../src/viewer/protocol";

const running = (stage: string): ToPage => ({ type: "running", compile: "f0", stage });
const stagesOf = (heard: readonly ToPage[]) => heard.map(each => (each.type === "running" ? each.stage : each.type));

test("one who listens late hears what was said before, once and in order", () => {
  const channel = Channel();
  const early: ToPage[] = [];
  const late: ToPage[] = [];
  channel.listen(message => early.push(message));
  channel.hear(running("decode"));
  channel.hear(running("capture"));
  channel.listen(message => late.push(message));
  channel.hear(running("trace"));
  assert.deepEqual(stagesOf(early), ["decode", "capture", "trace"]);
  assert.deepEqual(late, early);
});

test("what a whole record holds is not said again", () => {
  for (const whole of [{ type: "done" }, { type: "record", record: {} }] as ToPage[]) {
    const channel = Channel();
    channel.hear(running("decode"));
    channel.hear(whole);
    channel.hear(running("again"));
    const late: ToPage[] = [];
    channel.listen(message => late.push(message));
    assert.deepEqual(stagesOf(late), ["again"]);
  }
});

test("one who has left hears nothing", () => {
  const channel = Channel();
  const heard: ToPage[] = [];
  channel.listen(message => heard.push(message))();
  channel.hear(running("decode"));
  assert.deepEqual(heard, []);
});
