import assert from "node:assert/strict";
import { test } from "node:test";
import { KernelUpdates } from "../src/viewer/kernelupdates";
import type { Live } from "../src/viewer/host";
import { Model } from "../src/viewer/model";
import type { ToKernel, ToPage } from "../src/viewer/protocol";
import type { CompileData, RecordData, StageData } from "../src/viewer/record";
import { Signal } from "../src/viewer/signal";

const empty: RecordData = { version: 1, title: "t", engine: "explorer", target: "cpu", created: "", environment: {},
  config: {}, sources: [], compiles: [], coverage: {} };
const head: CompileData = { id: "f0", title: "f", started: 0, seconds: 0 };
const stage = (id: string, seconds = 1): StageData => ({ id, name: id, started: 0, seconds, depth: 0 });

function kernel() {
  const listeners = new Set<(message: ToPage) => void>();
  const sent: ToKernel[] = [];
  const live: Live = {
    listen: listener => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    send: message => sent.push(message),
    interrupt: () => undefined,
  };
  return { live, sent, listeners, say: (message: ToPage) => listeners.forEach(listener => listener(message)) };
}

test("stages fill in as they end, each once", () => {
  const model = new Model(empty);
  const { live, say, sent } = kernel();
  let now = 42;
  const follower = KernelUpdates(model, new Signal<Live | null>(live), () => now);
  assert.deepEqual(sent, [{ type: "hello" }]);
  say({ type: "running", compile: "f0", stage: "capture" });
  assert.deepEqual(follower.activity.value, { compile: "f0", stage: "capture", what: "", since: 42 });
  const known = [{ what: "operations", said: "captured 3 operations", state: "unknown", pane: "graphs" }];
  say({ type: "stage", compile: head, stage: stage("f0/0"), glance: known });
  assert.deepEqual(model.record.value.glance, known);
  say({ type: "stage", compile: head, stage: stage("f0/1") });
  assert.deepEqual(model.compile("f0")?.stages?.map(each => each.id), ["f0/0"]);
  now += 1000;
  say({ type: "stage", compile: head, stage: stage("f0/1", 2) });
  assert.deepEqual(model.compile("f0")?.stages?.map(each => [each.id, each.seconds]), [["f0/0", 1], ["f0/1", 2]]);
  say({ type: "record", record: { ...empty, title: "whole" } });
  assert.equal(model.record.value.title, "whole");
  say({ type: "done" });
  assert.equal(follower.activity.value, null);
  assert.equal(follower.ended.value, null);
});

test("stages that end in quick succession are shown together, a little later", async () => {
  const model = new Model(empty);
  const { live, say } = kernel();
  let renders = 0;
  model.record.watch(() => renders++);
  const follower = KernelUpdates(model, new Signal<Live | null>(live));
  for (let n = 0; n < 20; n++) say({ type: "stage", compile: head, stage: stage(`f0/${n}`) });
  await new Promise(done => setTimeout(done, 250));
  assert.equal(model.compile("f0")?.stages?.length, 20);
  assert.equal(renders, 3);
  say({ type: "stage", compile: head, stage: stage("f0/20") });
  say({ type: "stage", compile: head, stage: stage("f0/21") });
  say({ type: "done" });
  assert.equal(model.compile("f0")?.stages?.length, 22);
  follower.end();
});

test("the first timing is the record's; runs with other sizes leave it alone", () => {
  const model = new Model(empty);
  const { live, say } = kernel();
  KernelUpdates(model, new Signal<Live | null>(live));
  say({ type: "timed", run: "", timing: { contestants: [], overhead: 1 } });
  say({ type: "timed", run: "2", timing: { contestants: [], overhead: 7 } });
  assert.equal(model.record.value.timing?.overhead, 1);
});

test("a failed end stays until the next run, and a lost kernel ends what was going on", () => {
  const model = new Model(empty);
  const { live, say, listeners } = kernel();
  const connected = new Signal<Live | null>(live);
  const follower = KernelUpdates(model, connected);
  say({ type: "running", compile: "f0", stage: "build" });
  say({ type: "done", error: "interrupted" });
  assert.equal(follower.ended.value?.error, "interrupted");
  say({ type: "running", compile: "f0", stage: "build" });
  assert.equal(follower.ended.value, null);
  connected.value = null;
  assert.equal(follower.activity.value, null);
  assert.equal(listeners.size, 0);
  connected.value = live;
  follower.end();
  assert.equal(listeners.size, 0);
});
