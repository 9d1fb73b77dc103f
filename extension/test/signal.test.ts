import assert from "node:assert/strict";
import { test } from "node:test";
import { Signal, watchAny } from "../src/viewer/signal";

test("what watches several signals is called once at first, and once a change", () => {
  const [one, other] = [new Signal(1), new Signal("a")];
  const seen: string[] = [];
  const end = watchAny(() => seen.push(`${one.value}${other.value}`), one, other);
  assert.deepEqual(seen, ["1a"]);
  one.value = 2;
  other.value = "b";
  other.value = "b";
  assert.deepEqual(seen, ["1a", "2a", "2b"]);
  end();
  one.value = 3;
  assert.deepEqual(seen, ["1a", "2a", "2b"]);
});
