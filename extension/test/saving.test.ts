import assert from "node:assert/strict";
import { test } from "node:test";
import type { Host, Live } from "../src/viewer/host";
import type { ToKernel, ToPage } from "../src/viewer/protocol";
import { Saving } from "../src/viewer/saving";
import { Signal } from "../src/viewer/signal";

const listeners = new Set<(message: ToPage) => void>();
const sent: ToKernel[] = [];
const kernel: Live = {
  listen: listener => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  send: message => sent.push(message),
  interrupt: () => undefined,
};

function host(live: Live | null, files: [string, string | Blob][] = []): Host {
  return {
    recall: () => undefined, remember: () => undefined, dark: new Signal(false), link: address => address,
    live: new Signal(live), page: () => Promise.resolve(""),
    download: (name, _, contents) => files.push([name, contents]),
  };
}

const labels = (live: Live | null, cut: boolean) =>
  Saving({} as HTMLElement, host(live)).whole({ title: "step", cut }).map(each => each.label);

test("what is saved is all of the record, or said to be a part", () => {
  assert.deepEqual(labels(kernel, false), ["This record (.explore.json)", "Everything as one page (.html)"]);
  assert.deepEqual(labels(null, true), ["This record, shortened (.explore.json)", "One page, shortened (.html)"]);
  assert.equal(labels(kernel, true)[0], "All of this record, from the kernel (.explore.json.gz)");
});

test("all of a record that was cut comes from the kernel, once", async () => {
  const files: [string, string | Blob][] = [];
  Saving({} as HTMLElement, host(kernel, files)).whole({ title: "step", cut: true })[0]?.run();
  assert.deepEqual(sent, [{ type: "keep" }]);
  for (let n = 0; n < 2; n++) [...listeners].forEach(listener => listener({ type: "kept", packed: btoa("whole") }));
  await new Promise(setImmediate);
  assert.equal(files.length, 1);
  const [[name, contents]] = files as [[string, Blob]];
  assert.equal(name, "step.explore.json.gz");
  assert.equal(await contents.text(), "whole");
});
