import assert from "node:assert/strict";
import { test } from "node:test";
import { placeIn } from "../src/viewer/grid";
import type { Json } from "../src/viewer/host";
import { another, closed, kindOf, type Layout, layoutOf, moved, opened, placed, reflowed, resized, restored, saved,
  suggested, tabsOf, withCellShares, withColumnShares } from "../src/viewer/layout";

const KINDS = new Set(["source", "code", "graphs", "guards"]);
const shape = (layout: Layout) => layout.columns.map(
  column => column.cells.map(cell => cell.tabs.map(tab => (tab === cell.active ? `*${tab}` : tab)).join(" ")));
const start = layoutOf([["source", "guards"]], [["graphs"], ["code"]]);

function check(layout: Layout): void {
  const near = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
  near(layout.columns.reduce((sum, each) => sum + each.share, 0), layout.columns.length ? 1 : 0);
  for (const column of layout.columns) {
    assert.ok(column.cells.length > 0);
    near(column.cells.reduce((sum, each) => sum + each.share, 0), 1);
    for (const cell of column.cells) assert.ok(cell.tabs.includes(cell.active));
  }
  assert.equal(new Set(tabsOf(layout)).size, tabsOf(layout).length);
}

test("a new layout shows the first tab of each cell", () => {
  assert.deepEqual(shape(start), [["*source guards"], ["*graphs", "*code"]]);
  check(start);
});

test("wide places have three columns, middling ones two, narrow ones one; no pane but the diff is left out", () => {
  const kinds = ["source", "code", "graphs", "guards", "diff", "of a newer version"];
  assert.deepEqual([1600, 1000, 600].map(width => shape(suggested(kinds, width))), [
    [["*source guards"], ["*graphs"], ["*code of a newer version"]],
    [["*source guards"], ["*code of a newer version graphs"]],
    [["*source guards", "*code of a newer version graphs"]],
  ]);
});

test("another width arranges the panes anew, as long as a person has not", () => {
  const kinds = ["source", "code", "graphs", "guards"];
  const wide = opened(suggested(kinds, 1600), "guards");
  assert.deepEqual(shape(reflowed(wide, kinds, 1000)), [["source *guards"], ["*code graphs"]]);
  assert.deepEqual(shape(reflowed(wide, kinds, 500)), [["source *guards", "*code graphs"]]);
  assert.equal(reflowed(wide, kinds, 1700), wide);
  const own = closed(wide, "graphs");
  assert.equal(reflowed(own, kinds, 500), own);
});

test("opening brings to the front, or adds beside", () => {
  assert.deepEqual(shape(opened(start, "guards")), [["source *guards"], ["*graphs", "*code"]]);
  assert.deepEqual(shape(opened(start, "text", "source")), [["source guards *text"], ["*graphs", "*code"]]);
  assert.deepEqual(shape(opened(start, "text")), [["*source guards"], ["*graphs", "code *text"]]);
  assert.deepEqual(shape(opened(layoutOf(), "text")), [["*text"]]);
});

test("closing takes empty cells and columns along", () => {
  assert.deepEqual(shape(closed(start, "source")), [["*guards"], ["*graphs", "*code"]]);
  assert.deepEqual(shape(closed(closed(start, "graphs"), "code")), [["*source guards"]]);
  assert.deepEqual(shape(closed(start, "none")), shape(start));
});

test("a second pane of a kind has a name of its own", () => {
  assert.equal(another(start, "text"), "text");
  assert.equal(another(start, "code"), "code~2");
  assert.equal(another(opened(start, "code~2"), "code"), "code~3");
  assert.equal(kindOf("code~12"), "code");
});

test("moving goes to the neighbor, or makes a place at the edge", () => {
  assert.deepEqual(shape(moved(start, "guards", "right")), [["*source"], ["graphs *guards", "*code"]]);
  assert.deepEqual(shape(moved(start, "guards", "left")), [["*guards"], ["*source"], ["*graphs", "*code"]]);
  assert.deepEqual(shape(moved(start, "guards", "down")), [["*source", "*guards"], ["*graphs", "*code"]]);
  assert.deepEqual(shape(moved(start, "code", "up")), [["*source guards"], ["graphs *code"]]);
  assert.deepEqual(shape(moved(start, "code", "right")), [["*source guards"], ["*graphs"], ["*code"]]);
  assert.equal(moved(layoutOf([["source"]]), "source", "left").columns.length, 1);
});

test("dropping beside a cell, and onto one's own", () => {
  assert.deepEqual(shape(placed(start, "code", "source", "up")), [["*code", "*source guards"], ["*graphs"]]);
  assert.deepEqual(shape(placed(start, "code", "source", "into")), [["source guards *code"], ["*graphs"]]);
  assert.deepEqual(shape(placed(start, "source", "source", "down")), [["*guards", "*source"], ["*graphs", "*code"]]);
  assert.deepEqual(shape(placed(start, "code", "code", "left")), shape(start));
  assert.deepEqual([[0.1, 0.5], [0.9, 0.5], [0.5, 0.1], [0.5, 0.95], [0.5, 0.5]].map(
    ([x, y]) => placeIn(x as number, y as number)), ["left", "right", "up", "down", "into"]);
});

test("whatever is done, no pane is lost and shares stay whole", () => {
  let seed = 3;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  let layout = start;
  for (let round = 0; round < 500; round++) {
    const tabs = tabsOf(layout);
    const [tab, target] = [tabs[random(tabs.length)] as string, tabs[random(tabs.length)] as string];
    const place = (["left", "right", "up", "down", "into"] as const)[random(5)] as "left";
    layout = random(2) ? placed(layout, tab, target, place)
      : moved(layout, tab, (["left", "right", "up", "down"] as const)[random(4)] as "left");
    assert.deepEqual(new Set(tabsOf(layout)), new Set(tabs));
    check(layout);
  }
});

test("a border moves between its neighbors and leaves each some room", () => {
  assert.deepEqual(resized([0.5, 0.5], 0, 0.1), [0.6, 0.4]);
  const [first, second, third] = resized([0.4, 0.4, 0.2], 0, -5);
  assert.ok(first !== undefined && first > 0 && Math.abs(first + (second as number) - 0.8) < 1e-9 && third === 0.2);
  assert.deepEqual(resized([1], 0, 0.2), [1]);
});

test("what is saved comes back the same", () => {
  const layout = withCellShares(withColumnShares(opened(start, "guards"), [0.3, 0.7]), 1, [0.25, 0.75]);
  const kept = JSON.parse(JSON.stringify(saved(layout))) as Json;
  assert.deepEqual(restored(kept, KINDS), layout);
});

test("of what an older or newer version saved, the rest stays", () => {
  const kept = saved(opened(start, "code~2")) as { [key: string]: Json };
  assert.deepEqual(shape(restored(kept, new Set(["source", "code"])) as Layout), [["*source"], ["code *code~2"]]);
  const odd: Json = { version: 9,
    columns: [{ cells: [{ tabs: ["code", "code", 3, "gone"], active: "gone", share: -1 }] }, { cells: 7 }] };
  assert.deepEqual(shape(restored(odd, KINDS) as Layout), [["*code"]]);
  check(restored(odd, KINDS) as Layout);
  const hopeless: (Json | undefined)[] =
    [undefined, null, 3, "x", [], {}, { columns: [] }, { columns: [{ cells: [{ tabs: ["gone"] }] }] }];
  for (const each of hopeless) assert.equal(restored(each, KINDS), null);
});
