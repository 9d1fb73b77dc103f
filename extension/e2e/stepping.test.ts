// Stepping through a capture in the pane Bytecode: moves, breakpoints, what made a value, and how long that takes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, Locator } from "playwright-core";
import type { CompileData, RecordData, StepData, WrittenData } from "../src/viewer/record";
import { type Bare, barePage } from "./bare";
import { launch, type Visit } from "./browser";
import { openPane } from "./panes";

const STEPS = 20_000;
const SOON_MS = 100;

let browser: Browser;
let visit: Visit;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/** The sample, whose first compile was evaluated in this many steps. */
function long(steps: number): RecordData {
  const record =
    JSON.parse(readFileSync(join(import.meta.dirname, "../test/fixtures/sample.explore.json"), "utf8")) as RecordData;
  const [first, ...others] = record.compiles as [CompileData, ...CompileData[]];
  const ids = first.codes?.[0]?.instructions.map(each => each.id) ?? [];
  const made =
    Array.from({ length: steps },
      (_, n): StepData =>
        [ids[n % ids.length] ?? "", n % 50 < 20 ? 0 : 1, n, 0, [n % 2, 1], n % 7 ? {} : { [`v${n % 40}`]: n % 2 }]);
  const guard = first.guards?.[0];
  const guards = guard ? Array.from({ length: 900 }, (_, n) => ({ ...guard, id: `many${n}`, step: 20 * n })) : [];
  return { ...record, compiles: [{ ...first, trace: made, guards }, ...others] };
}

async function opened(record: RecordData): Promise<Locator> {
  visit = await barePage(browser);
  await visit.page.evaluate(given => (window as unknown as Bare).mount(given), record);
  return openPane(visit.page.locator("#viewer"), "bytecode");
}

test("keys and buttons move by what was chosen, and a value leads to the step that made it", async () => {
  const pane = await opened(long(60));
  const told = pane.locator(".ex-step-told");
  const { keyboard } = visit.page;
  await pane.getByRole("slider").focus();
  await keyboard.press("i");
  assert.match(await told.innerText(), /^step 0 of 59/);
  await keyboard.press("g");
  assert.match(await told.innerText(), /^step 20 of 59; 3 hits/);
  await keyboard.press("G");
  assert.match(await told.innerText(), /^step 0 of 59/);
  await keyboard.press("]");
  await pane.getByRole("button", { name: "Forward" }).click();
  assert.match(await told.innerText(), /^step 40 of 59/, "the brackets and the buttons go by the same");
  await keyboard.press("u");
  assert.match(await told.innerText(), /^step 50 of 59/, "out of the inlined function");
  await pane.getByLabel("Breakpoint").fill("step>10 depth:1 top:mul");
  await pane.getByRole("button", { name: "Back" }).click();
  assert.match(await told.innerText(), /^step 49 of 59; 30 hits/);
  await pane.getByLabel("Breakpoint").fill("gurd:");
  assert.match(await told.innerText(), /No step has gurd; expected one of op/);
  assert.equal(await pane.getByLabel("Breakpoint").getAttribute("aria-invalid"), "true");
  await pane.getByRole("button", { name: "@0", exact: true }).first().click();
  assert.match(await told.innerText(), /^step 0 of 59/);
  assert.ok(await visit.page.evaluate(address => (window as unknown as Bare).open(address),
    `#bytecode/f0//step31/${encodeURIComponent(long(0).created)}`));
  assert.match(await told.innerText(), /^step 31 of 59/, "an address leads to a step");
  assert.deepEqual(visit.errors, []);
});

test("code objects of one name are told apart by their roles, or by their lines", async () => {
  const record = long(60);
  const [first, ...others] = record.compiles as [CompileData, ...CompileData[]];
  const [own] = first.codes ?? [];
  assert.ok(own);
  const codes = [own, { ...own, role: "rewritten" }, { ...own, role: "inlined", line: 7 },
    { ...own, role: "inlined", line: 9 }, { ...own, name: "other" }];
  const pane = await opened({ ...record, compiles: [{ ...first, codes: codes as CompileData["codes"] }, ...others] });
  const shown = await pane.getByLabel("Code object").locator("option").allTextContents();
  assert.deepEqual(shown.sort(),
    [`${own.name}, inlined, line 7`, `${own.name}, inlined, line 9`, `${own.name}, original`, `${own.name}, rewritten`,
      "other"].sort());
});

test("a map of the steps, values as trees, and breakpoints on lines of the source", async () => {
  const record = long(60);
  const [first, ...others] = record.compiles as [CompileData, ...CompileData[]];
  const values: CompileData["values"] = [["tensor l_x"], ["list L['parts'] of 1", 0, [["0", 0], ["1", 1], ["2", 7]]]];
  const pane = await opened({ ...record, compiles: [{ ...first, values }, ...others] });
  assert.deepEqual(await pane.locator(".ex-ticks title").allTextContents().then(all => all.slice(0, 3)),
    ["inlined: 30 steps", "node: 1 step", "guard: 3 steps"]);
  assert.equal(await pane.getByRole("button", { name: "guard 3", exact: true }).getAttribute("title"),
    "Go by guard (g)");
  await pane.getByRole("slider").focus();
  await visit.page.keyboard.press("i");
  const tree = pane.locator("details").filter({ hasText: "list L['parts'] of 1" }).first();
  await tree.locator("> summary").click();
  assert.match(await tree.innerText(), /0: tensor l_x/);
  assert.equal(await tree.locator("details details").count(), 0, "what claims to hold itself without end does not");
  await visit.page.keyboard.press("i");
  assert.ok(await pane.locator("details[open]").count(), "what was opened stays open");
  await tree.locator("> summary").evaluate((summary: HTMLElement) => {
    const slider = document.querySelector("[role=slider], input[type=range]");
    summary.click();
    slider?.dispatchEvent(new KeyboardEvent("keydown", { key: "i", bubbles: true }));
  });
  assert.equal(await pane.locator("details[open]").count(), 0,
    "what was closed stays closed, however soon the next step comes");
  const source = await openPane(visit.page.locator("#viewer"), "source");
  const numbers = source.locator(".ex-numbers .cm-gutterElement").filter({ hasText: /^\d+$/ });
  const query = pane.getByLabel("Breakpoint");
  await numbers.nth(1).click();
  const dots = source.locator(".ex-mark").filter({ hasText: "●" });
  assert.equal(await dots.count(), 1);
  await numbers.nth(2).click();
  assert.equal(await dots.count(), 2);
  await openPane(visit.page.locator("#viewer"), "bytecode");
  assert.match(await query.inputValue(), /^at="[\w.]+:\d+\|[\w.]+:\d+"$/);
  assert.match(await pane.locator(".ex-step-told").innerText(), /[1-9]\d* hits?$/);
  await openPane(visit.page.locator("#viewer"), "source");
  await numbers.nth(1).click();
  await source.locator(".cm-content").focus();
  await visit.page.keyboard.press("ArrowDown");
  await visit.page.keyboard.press("b");
  assert.equal(await dots.count(), 2, "b sets one on the line of the keyboard");
  await visit.page.keyboard.press("b");
  await numbers.nth(2).click();
  assert.equal(await dots.count(), 0);
  assert.deepEqual(visit.errors, []);
});

test("the captured graph grows with the steps, the new node at hand, and Escape shows it whole", async () => {
  const record = long(60);
  const [first, ...others] = record.compiles as [CompileData, ...CompileData[]];
  const nodes = first.stages?.find(each => each.graph)?.graph?.nodes ?? [];
  const pane =
    await opened({ ...record,
      compiles: [{ ...first, made: Object.fromEntries(nodes.map(({ id }, n) => [id, 10 * n])) }, ...others] });
  const graph = await openPane(visit.page.locator("#viewer"), "graphs");
  const said = graph.locator(".ex-g-said");
  const { keyboard } = visit.page;
  const shows = (many: number) =>
    visit.page.waitForFunction(wanted => document.querySelectorAll(".ex-g-node").length === wanted, many);
  await pane.getByRole("slider").focus();
  for (const [key, many, step] of [["i", 1, 0], ["n", 2, 10], ["I", 1, 9]] as const) {
    await keyboard.press(key);
    assert.match(await said.innerText(),
      new RegExp(`^${many} of 2 nodes, up to step ${step} .Escape: all.: the graph captured`));
    await shows(many);
    assert.match(await graph.locator(".ex-g-view [aria-live=polite]").innerText(),
      step % 10 ? /^$/ : new RegExp(`^${nodes[many - 1]?.name}:`));
  }
  await keyboard.press("Escape");
  await shows(nodes.length);
  assert.doesNotMatch(await said.innerText(), /step/);
  assert.deepEqual(visit.errors, []);
});

test("what kernels wrote is walked, to the first NaN and the first difference", async () => {
  const record = long(1);
  const [first, ...others] = record.compiles as [CompileData, ...CompileData[]];
  const [half, ...halves] = first.halves ?? [];
  assert.ok(half);
  const written: readonly WrittenData[] = [
    { kernel: "k0", buffer: "buf0", node: "aten.mul", ours: "1 to 2", eager: "1 to 2", error: 0 },
    { kernel: "k1", buffer: "buf1", node: "aten.log", ours: "3 NaN; nan", eager: "3 NaN; nan", error: 0, nonfinite: 3,
      began: "aten.log" },
    { kernel: "k2", buffer: "buf2", node: "aten.exp", ours: "1 to 9", eager: "1 to 2", error: 7, differs: true },
    { kernel: "k2", buffer: "buf3", ours: "4" },
  ];
  const backward = { ...half, name: "f0_backward", kernels: [], operations: [], buffers: [],
    written: [{ kernel: "k9", buffer: "buf9", node: "aten.neg", ours: "5" }] };
  const viewer = await opened(
    { ...record, compiles: [{ ...first, halves: [{ ...half, written }, ...halves, backward] }, ...others] });
  assert.ok(viewer);
  const pane = await openPane(visit.page.locator("#viewer"), "values");
  const { keyboard } = visit.page;
  const told = pane.locator(".ex-step-told");
  const card = pane.getByRole("region", { name: "What was written" });
  await pane.getByRole("slider").focus();
  for (const [key, step, says] of [
    ["n", 1, /3 elements NaN or infinite; the same.*In eager this begins with aten.log/s],
    ["d", 2, /k2 writes buf2: the value of aten.exp\s+differs \(off by up to 7/],
    ["i", 3, /not compared: no node has this value/], ["D", 2, /differs/], ["I", 1, /NaN/], ["]", 2, /differs/],
  ] as const) {
    await keyboard.press(key);
    assert.match(await told.innerText(), new RegExp(`^step ${step} of 3`));
    assert.match(await card.innerText(), says);
  }
  assert.equal(await pane.locator("tr.ex-pinned").innerText(), await pane.locator("tbody tr").nth(2).innerText(),
    "the row is pinned");
  await pane.locator("tbody tr").nth(0).click();
  assert.match(await told.innerText(), /^step 0 of 3/, "a row that is clicked is gone to");
  await pane.getByLabel("Breakpoint").fill("kernel=k2 error>1");
  await pane.getByRole("button", { name: "Forward (" }).click();
  assert.match(await told.innerText(), /^step 2 of 3; 1 hit/);
  assert.ok(await visit.page.evaluate(address => (window as unknown as Bare).open(address),
    `#values/f0//aten.neg/${encodeURIComponent(record.created)}`));
  assert.match(await told.innerText(), /^step 0 of 0/, "an address leads to what a kernel of the other half wrote");
  assert.match(await card.innerText(), /k9 writes buf9/);
  assert.deepEqual(visit.errors, []);
});

test("what fusion tried is walked, with what was together by then", async () => {
  await opened(long(1));
  const pane = await openPane(visit.page.locator("#viewer"), "schedule");
  const { keyboard } = visit.page;
  const [told, came] = [pane.locator(".ex-step-told"), pane.getByRole("status").filter({ hasText: "Kernels so far" })];
  await pane.getByRole("slider").focus();
  for (const [key, step, says] of [
    ["i", 0, /postponed: .* Kernels so far: none/], ["f", 2, /✓ fused: .* It saves 512 B. Kernels so far: .* \+ /],
    ["R", 1, /✕ refused: /], ["P", 0, /postponed/],
  ] as const) {
    await keyboard.press(key);
    assert.match(await told.innerText(), new RegExp(`^step ${step} of 2`));
    assert.match(await came.innerText(), says);
  }
  await pane.getByLabel("Breakpoint").fill("saves>500");
  await pane.getByRole("button", { name: "Forward" }).click();
  assert.match(await told.innerText(), /^step 2 of 2; 1 hit/);
  const half = long(1).compiles[0]?.halves?.[0]?.name ?? "";
  await visit.page.getByRole("button", { name: "Copy a link to what is shown" }).click();
  const address = await visit.page.getByRole("dialog").innerText();
  assert.match(address, new RegExp(`#schedule/f0/.*/${half}\\.step2/`));
  await keyboard.press("Escape");
  assert.ok(await visit.page.evaluate(given => (window as unknown as Bare).open(given),
    `#schedule/f0//${half}.step0/${encodeURIComponent(long(1).created)}`));
  assert.match(await came.innerText(), /postponed: /, "an address leads to an attempt");
  assert.deepEqual(visit.errors, []);
});

test("what passes replaced is walked, rewrite by rewrite, each in the text of its pass", async () => {
  const record = long(1);
  await opened(record);
  const pane = await openPane(visit.page.locator("#viewer"), "text");
  const { keyboard } = visit.page;
  const [told, card] = [pane.locator(".ex-step-told"), pane.getByRole("status").filter({ hasText: "−" })];
  await pane.getByRole("slider").focus();
  await keyboard.press("d");
  assert.match(await told.innerText(), /^step 0 of 2; 1 hit/);
  assert.match(await card.innerText(), /^nothing reads it\s+− aten.dead = aten.neg\(x\)$/);
  assert.match(await pane.locator(".ex-current").innerText(), /dead = aten.neg/, "its line is marked as removed");
  await keyboard.press("r");
  assert.match(await card.innerText(), /the same call\s+− aten.twice = aten.mul\(x, scale\)\s+\+ aten.mul = aten.mul/);
  await keyboard.press("l");
  assert.match(await card.innerText(), /computed in loops\s+− aten.mul\s+\+ buf0\s+the graph returns it$/);
  await pane.getByLabel("Breakpoint").fill("pass:dead node=aten.twice");
  await pane.getByRole("button", { name: "Back" }).click();
  assert.match(await told.innerText(), /^step 1 of 2; 1 hit/);
  assert.ok(await visit.page.evaluate(address => (window as unknown as Bare).open(address),
    `#text/f0//step0/${encodeURIComponent(record.created)}`));
  assert.match(await told.innerText(), /^step 0 of 2/, "an address leads to a rewrite");
  assert.deepEqual(visit.errors, []);
});

test("a move among many steps is done at once", async () => {
  const pane = await opened(long(STEPS));
  await pane.getByRole("slider").focus();
  await visit.page.keyboard.press("i");
  const spent: { [move: string]: number } = {};
  const timed = async (name: string, act: (given: string) => void, given = name) => {
    spent[name] = Math.min(spent[name] ?? Infinity, await visit.spent(() => visit.page.evaluate(act, given)));
  };
  const press = (key: string) => {
    const slider = document.querySelector("[data-panel=bytecode] input[type=range]");
    slider?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    void document.body.offsetHeight;
  };
  const ask = (query: string) => {
    const field = document.querySelector<HTMLInputElement>("[data-panel=bytecode] input[type=search]");
    if (!field) throw new Error("no stepper");
    field.value = query;
    field.dispatchEvent(new Event("input"));
    void document.body.offsetHeight;
  };
  for (const key of [..."iiillloooggGGLLII", "End"]) await timed(key, press);
  for (const each of [0, 1, 2]) {
    await timed("query", ask, `depth>0 top:mul step>${each}`);
    await timed("c", press);
  }
  assert.match(await pane.locator(".ex-step-told").innerText(), /^step \d+ of 19999; \d+,\d+ hits/);
  assert.deepEqual(Object.entries(spent).filter(([, each]) => each > SOON_MS), [], JSON.stringify(spent));
  assert.deepEqual(visit.errors, []);
});
