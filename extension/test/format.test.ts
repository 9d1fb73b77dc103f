import assert from "node:assert/strict";
import { test } from "node:test";
import { count, grouped } from "../src/viewer/format";

test("whole numbers are grouped as English groups them", () => {
  for (const each of [0, 7, 999, 1000, 1001, 12_045, 1_000_000, 1_020_003, -1, -999, -1000, -12_345_067])
    assert.equal(grouped(each), each.toLocaleString("en"));
  assert.equal(grouped(1.5), "1.5");
  assert.equal(grouped(Infinity), "Infinity");
  assert.equal(count(1, "guard"), "1 guard");
  assert.equal(count(12_000, "entry", "entries"), "12,000 entries");
});
