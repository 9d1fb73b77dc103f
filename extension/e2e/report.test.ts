// The report of one file, opened from disk as a person would who was sent it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { faults } from "./axe";
import { type Bare, barePage } from "./bare";
import { launch, Visit } from "./browser";
import { MADE } from "./make";
import { openEachPane, openPane, ran } from "./panes";

let browser: Browser;

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser?.close();
});

async function visit(name: string, look: Parameters<typeof Visit.start>[1] = {}): Promise<Visit> {
  const started = await Visit.start(browser, look);
  await started.page.goto(pathToFileURL(join(MADE, name)).href);
  return started;
}

for (const dark of [false, true]) {
  test(`shows every pane, asks for nothing, and has no serious fault (${dark ? "dark" : "light"})`, async () => {
    const on = await visit("plain.html", { dark });
    const viewer = on.page.locator("#viewer");
    await viewer.locator(".ex-header").waitFor();
    await on.picture(`report-${dark ? "dark" : "light"}`);
    await openEachPane(viewer, async pane => assert.deepEqual(await faults(on.page), [], pane));
    assert.deepEqual(on.errors, []);
    assert.deepEqual(on.left, []);
    await on.end();
  });
}

test("each column of a table says what it holds", async () => {
  for (const file of ["sample.html", "plain.html", "methods.html", "ranks.html"]) {
    const on = await visit(file);
    const viewer = on.page.locator("#viewer");
    await viewer.locator(".ex-header").first().waitFor();
    const silent = () => on.page.evaluate(() => {
      const headers = [...document.querySelectorAll<HTMLElement>("#viewer th[scope=col]")];
      headers.forEach(each => each.dispatchEvent(new PointerEvent("pointerover", { bubbles: true })));
      return headers.filter(each => !each.title).map(each => each.textContent);
    });
    const said = async () => {
      await silent();
      await on.page.waitForTimeout(50);
      assert.deepEqual(await silent(), [], file);
    };
    if (file === "methods.html" || file === "ranks.html") await said();
    else await openEachPane(viewer, said);
    assert.ok(await on.page.locator("#viewer th[title]").count() > 3);
    await on.end();
  }
});

test("what was told of trouble, cost and memory stands where one looks for it", async () => {
  const on = await visit("sample.html");
  const viewer = on.page.locator("#viewer");
  const told: { readonly [pane: string]: readonly string[] } = {
    recompiles: ["compiled f0", "the size of x is 4"],
    breaks: ["1 error", "Fixes that were tried", "fix0s0 scaled, with torch.where",
      "With this fix the graph breaks at"],
    guards: ["grad mode is as at capture", "torch's state"],
    timing: ["2x faster than eager (1.9 to 2.1)", "too noisy to compare with eager", "4.10 kFLOP", "2.05 kB"],
    memory: ["What is in memory at the peak, and what is saved for the backward?"],
  };
  for (const [id, texts] of Object.entries(told)) {
    const pane = await openPane(viewer, id);
    for (const table of await pane.getByRole("button", { name: "Table", exact: true }).all()) await table.click();
    const shown = (await pane.innerText()) + (await pane.locator("text").allInnerTexts()).join(" ");
    for (const text of texts) assert.ok(shown.includes(text), `${text} in ${id}: ${shown}`);
  }
  const breaks = await openPane(viewer, "breaks");
  await breaks.getByRole("button", { name: "fix0s0", exact: true }).first().click();
  assert.equal(await on.page.evaluate(() => document.activeElement?.getAttribute("aria-label")),
    "Fix: scaled, with torch.where");
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("assembly in either syntax, what Python makes where there is no kernel, and the measured memory", async () => {
  const on = await visit("plain.html");
  const code = await openPane(on.page.locator("#viewer"), "code");
  await code.getByRole("radio", { name: "Assembly" }).click();
  const syntax = code.getByRole("button", { name: "Intel syntax" });
  const shown = () => code.locator(".cm-content").innerText();
  assert.match(await shown(), /%[re]?[a-z]+/);
  await syntax.click();
  assert.equal(await syntax.getAttribute("aria-pressed"), "true");
  assert.doesNotMatch(await shown(), /%[re]?[a-z]+/);
  await syntax.click();
  assert.match(await shown(), /%[re]?[a-z]+/);
  await code.getByRole("button", { name: "Save as a program" }).click();
  const dialog = on.page.locator("dialog", { hasText: "could not be made" });
  await dialog.getByText(/In Python: record\.repro\("\w+", "f\d+"\)/).waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await code.getByRole("button", { name: "Throughput" }).click();
  await code.getByText(/In Python: record\.throughput\("\w+"\)/).waitFor();
  const memory = await openPane(on.page.locator("#viewer"), "memory");
  assert.match(await memory.innerText(), /The measured peak of one run was [\d.]+ k?B \(dotted\)/);
  assert.match((await memory.locator(".ex-memory-measured").getAttribute("d")) ?? "", /^M[\d. ]+H/);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("at a glance: each part leads to its pane, and is all that a folded record shows", async () => {
  const on = await visit("plain.html", { width: 1440 });
  const viewer = on.page.locator("#viewer");
  const parts = viewer.locator(".ex-part");
  const said = (await parts.allInnerTexts()).filter(each => each.includes("graph break"));
  assert.match(said.join(), /^⚠ 1 graph break: .* at make\.py:\d+$/);
  await on.page.getByRole("button", { name: "Summary alone" }).click();
  assert.equal(await viewer.locator(".ex-body").isVisible(), false);
  assert.ok(((await viewer.boundingBox())?.height ?? 0) < 150);
  await on.picture("glance-folded");
  for (const [said, pane] of [[/graph break/, "breaks"], [/guards/, "guards"], [/became/, "schedule"],
      [/compiled in/, "timeline"]] as const) {
    await parts.filter({ hasText: said }).first().click();
    await viewer.locator(`[data-tab="${pane}"][aria-selected=true]`).waitFor();
  }
  const breaks = await openPane(viewer, "breaks");
  assert.equal(await breaks.locator("h2").first().innerText(), "1 graph break");
  assert.deepEqual(await breaks.locator("mark").allInnerTexts(), ['print("a graph break")']);
  await on.page.getByRole("button", { name: "What Breaks shows" }).click();
  await on.page.locator("dialog", { hasText: "Each place where a graph had to end" }).getByRole("button",
    { name: "Close" }).click();
  await on.page.getByRole("button", { name: "Keyboard help" }).click();
  await on.page.locator("dialog", { hasText: "search all panes" }).getByRole("button", { name: "Close" }).click();
  await on.page.getByRole("button", { name: "Why?", exact: true }).click();
  const dialog = on.page.locator("dialog");
  assert.ok((await dialog.locator("h3").allInnerTexts()).includes("Why does the graph break, or run eagerly?"));
  await dialog.getByRole("button").first().click();
  const guards = await openPane(viewer, "guards");
  assert.deepEqual(await guards.locator("h2:visible").allInnerTexts(), ["Guards", "Try another call"]);
  assert.deepEqual(await guards.locator("thead").first().locator("th:visible").allInnerTexts(),
    ["This call", "Guard", "Cost", "From"]);
  assert.match(await guards.locator("tbody tr:visible").first().innerText(),
    /x is a float32 tensor of size \[32, 64\]/);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("at a glance: two engines are two rows of equal columns", async () => {
  const on = await visit("sample.html", { width: 1440 });
  const rows = on.page.locator(".ex-engine");
  assert.deepEqual(await rows.locator("strong").allInnerTexts(), ["explorer", "stock"]);
  const lefts = async (row: number) => (await rows.nth(row).locator("> div")
    .evaluateAll(cells => cells.map(cell => cell.getBoundingClientRect().left)));
  assert.deepEqual(await lefts(0), await lefts(1));
  const guards = on.page.locator(".ex-part").filter({ hasText: /guards$/ }).first();
  assert.match((await guards.getAttribute("title")) ?? "", /on the program's values, .* on torch's state/);
  await on.picture("glance-two");
  await on.page.locator("#viewer .ex-part").filter({ hasText: /peak memory/ }).first().click();
  await on.page.locator('#viewer [data-tab="memory"][aria-selected=true]').waitFor();
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("nothing in a record runs", async () => {
  const on = await visit("hostile.html");
  await openEachPane(on.page.locator("#viewer"));
  assert.equal(await ran(on.page), false);
  assert.equal(await on.page.locator("img").count(), 0);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("every tab is whole in sight, however narrow the page gets", async () => {
  const on = await visit("plain.html", { width: 1200 });
  await openPane(on.page.locator("#viewer"), "diff");
  for (const width of [1440, 1330, 800, 420]) {
    await on.page.setViewportSize({ width, height: 900 });
    await on.page.waitForFunction(() => [...document.querySelectorAll<HTMLElement>("[role=tab]")].every(tab => {
      const [bar, own] = [tab.parentElement?.getBoundingClientRect(), tab.getBoundingClientRect()];
      return bar && own.width > 0 && own.left >= bar.left - 1 && own.right <= bar.right + 1
        && own.bottom <= bar.bottom + 1;
    }), undefined, { timeout: 20_000 });
  }
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("texts that are filled scroll themselves alone: a small page begins at its top", async () => {
  const on = await visit("model.html", { width: 700, height: 600 });
  await on.page.locator("#viewer .cm-line").first().waitFor();
  await on.page.waitForTimeout(500);
  const scrolled = () =>
    on.page.evaluate(() => [...document.querySelectorAll("#viewer, .ex-root, .ex-body")].map(each => each.scrollTop));
  assert.deepEqual([...new Set(await scrolled())], [0]);
  await on.end();
});

test("without scripts the page shows what was generated", async () => {
  const on = await visit("plain.html", { scripts: false });
  assert.match(await on.page.locator("body").innerText(), /gated/);
  assert.ok(await on.page.locator("details").count());
  await on.end();
});

test("weighs less than 1 MB beside its record", () => {
  const page = readFileSync(join(MADE, "plain.html"));
  const record = readFileSync(join(MADE, "plain.explore.json.gz"));
  assert.ok(page.length - record.length < 1e6, `${page.length - record.length} bytes`);
});

test("a report saved from the report shows the same record", async () => {
  const on = await visit("plain.html");
  await on.page.getByRole("button", { name: "Save as a file" }).click();
  const saving = on.page.waitForEvent("download");
  await on.page.getByRole("menuitem", { name: "Everything as one page" }).click();
  const copy = join(MADE, "copy.html");
  await (await saving).saveAs(copy);
  const held = await on.page.locator("#record").textContent();
  await on.page.goto(pathToFileURL(copy).href);
  await on.page.locator("#viewer .ex-header").waitFor();
  assert.equal(await on.page.locator("#record").textContent(), held);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("fusion is told by operation and line, and of libraries only the lines that something came of", async () => {
  const on = await visit("model.html", { width: 1440 });
  const viewer = on.page.locator("#viewer");
  const schedule = await openPane(viewer, "schedule");
  assert.match((await schedule.locator(".ex-op text").allTextContents()).join(), /addmm · linear\.py:\d+/);
  assert.match(await schedule.innerText(),
    /^\d+ operations? inlined into other loops\. \d+ of \d+ pairs? of operations fused[\s\S]* Fusion decisions\n[\s\S]*computes in the same loop: /);
  const top = async (text: string) => (await schedule.getByRole("heading", { name: text }).first().boundingBox())?.y
    ?? NaN;
  assert.ok((await top("Kernels, in execution order")) < (await top("Loop IR")));
  const source = await openPane(viewer, "source");
  const folded = await source.locator(".cm-line").allInnerTexts();
  assert.ok(folded.findIndex(each => /^LayerNorm\.forward · normalization\.py:\d+$/.test(each)) > folded.findIndex(
    each => /^Linear\.forward · linear\.py:\d+$/.test(each)));
  const lines = () => source.locator(".cm-line").count();
  const few = await lines();
  await source.getByRole("button", { name: "Libraries" }).click();
  assert.ok(await lines() > few);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("three panes beside each other have one row of choices each, and kernels are frames around their operations",
  async () => {
  const on = await visit("plain.html", { width: 1440 });
  const viewer = on.page.locator("#viewer");
  await viewer.locator(".ex-g-frame").first().waitFor();
  assert.match((await viewer.locator(".ex-g-frame-name").allTextContents()).join(), /k\d+_/);
  const heights =
    await viewer.locator(".ex-bar:visible").evaluateAll(bars => bars.map(bar => bar.getBoundingClientRect().height));
  assert.equal(heights.length, 3);
  for (const height of heights) assert.ok(height < 36, `${heights}`);
  await on.page.getByRole("button", { name: "View", exact: true }).click();
  await on.page.getByRole("menuitemcheckbox", { name: "No groups", checked: false }).click();
  assert.equal(await viewer.locator(".ex-g-frame").count(), 0);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("of what compiled nothing the answer alone is shown", async () => {
  const on = await visit("nothing.html");
  const viewer = on.page.locator("#viewer");
  assert.deepEqual(await viewer.locator(".ex-part").allInnerTexts(), ["⚠ nothing was compiled"]);
  assert.equal(await viewer.locator(".ex-body").isVisible(), false);
  await viewer.locator(".ex-part").click();
  assert.equal(await viewer.locator(".ex-body").isVisible(), true);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("styles of the page that it is in change nothing of it", async () => {
  const on = await visit("plain.html", { width: 1440 });
  const viewer = on.page.locator("#viewer");
  await viewer.locator(".ex-header").waitFor();
  const look = () =>
    viewer.evaluate(root => [...root.querySelectorAll<HTMLElement>("*:not(svg *, .cm-editor *)")].map(each => {
    const { width, height, left, top } = each.getBoundingClientRect();
    const { color, backgroundColor, font, textAlign, letterSpacing } = getComputedStyle(each);
    return `${each.className} ${[width, height, left, top].map(Math.round).join()} ${color} ${backgroundColor} ${font} ${textAlign} ${letterSpacing}`;
  }));
  for (const pane of ["breaks", "guards", "timing"]) {
    await openPane(viewer, pane);
    const before = await look();
    const style = await on.page.addStyleTag({ content: `
      body.host { letter-spacing: 3px; text-align: right; font: italic 30px serif; text-transform: uppercase; color: red; }
      .host.host.host :is(dt, dd, td, th, table, div, span, button, h1, h2, h3, p, ul, li, select, input, summary):not(.cm-editor, .cm-editor *) {
        float: left; width: 20%; margin: 9px; padding: 9px; font-weight: bold; color: red; background: lime; border: 3px solid; letter-spacing: 2px; }` });
    await viewer.evaluate(root => root.parentElement?.classList.add("host"));
    await viewer.evaluate(
      root => root.setAttribute("style", "width: 100%; margin: 0; padding: 0; float: none; border: 0"));
    assert.deepEqual((await look()).filter((each, n) => each !== before[n]), [], pane);
    await style.evaluate(each => (each as HTMLElement).remove());
  }
  await on.end();
});

test("pointing at a line lights what is its own strongly, what it shares faintly, and says how much came of it",
  async () => {
  const on = await visit("plain.html", { width: 1440 });
  const viewer = on.page.locator("#viewer");
  const source = await openPane(viewer, "source");
  await source.locator(".cm-line", { hasText: "torch.sigmoid" }).hover();
  const code = viewer.locator(".ex-cell", { has: on.page.locator("[data-tab=code]") });
  assert.match((await code.locator(".cm-line.ex-hot").allInnerTexts()).join("\n"), /exp/);
  assert.doesNotMatch((await code.locator(".cm-line.ex-hot").allInnerTexts()).join("\n"), /for \(|erf/);
  assert.match((await code.locator(".cm-line.ex-near").allInnerTexts()).join("\n"), /for \(/);
  assert.match(await viewer.locator(".ex-trail").innerText(), /make\.py:\d+\s+→ .*2 graph nodes, .*kernels \(shared\)/);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("the compilation is told in phases, each with what it made", async () => {
  const on = await visit("plain.html", { width: 1440 });
  const viewer = on.page.locator("#viewer");
  const phases = viewer.locator(".ex-phase");
  assert.match((await phases.allInnerTexts()).join(" ").replace(/\s+/g, " "),
    /Python \d+ instructions .*Graph \d+ operations? .*Autograd \d+ ATen calls? .*Loops .*Fusion \d+ kernels? .*Code \d+ kernels?/);
  await phases.filter({ hasText: "Fusion" }).click();
  await viewer.locator(".ex-stage[data-stage]", { hasText: "plan memory" }).first().waitFor();
  assert.equal(await viewer.locator(".ex-stage[data-stage]", { hasText: "capture" }).count(), 0);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("an address opens what it names, and the button copies the address of what is shown", async () => {
  const on = await visit("plain.html", { width: 1440 });
  await on.page.locator("#viewer [role=tab]").first().waitFor();
  await on.page.keyboard.press("/");
  await on.page.waitForFunction(() => document.activeElement?.matches(".ex-search"), undefined, { timeout: 10_000 });
  await on.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const viewer = on.page.locator("#viewer");
  const guards = await openPane(viewer, "guards");
  await guards.locator("tbody tr").first().click();
  await viewer.getByRole("treeitem", { name: /after line/ }).first().click();
  await openPane(viewer, "memory");
  await on.page.getByRole("button", { name: "Copy a link to what is shown" }).click();
  const link = await on.page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /plain\.html#memory\/f\d+\//);
  const again = await visit("plain.html");
  await again.page.goto("about:blank");
  await again.page.goto(link);
  const opened = again.page.locator("#viewer");
  await opened.locator("[data-tab=memory][aria-selected=true]").waitFor();
  assert.match(await opened.getByRole("treeitem", { selected: true }).innerText(), /after line/);
  assert.match(await opened.locator(".ex-trail").innerText(), /pinned/);
  await again.page.evaluate(() => (location.hash = location.hash.replace("memory", "timeline")));
  await opened.locator("[data-tab=timeline][aria-selected=true]").waitFor();
  for (const wrong of ["#nothing/f9/%/x/y", "#%E0%A4%A/", "#memory/////", "#nothing"])
    await again.page.evaluate(hash => (location.hash = hash), wrong);
  assert.equal(await opened.locator("[data-tab=timeline][aria-selected=true]").count(), 1);
  await again.page.evaluate(() => (location.hash = "#breaks"));
  await opened.locator("[data-tab=breaks][aria-selected=true]").waitFor();
  assert.deepEqual([...on.errors, ...again.errors], []);
  await on.end();
  await again.end();
});

test("a record that grows opens on the first compile with a graph, until somebody chooses another", async () => {
  const on = await barePage(browser);
  const { compiles: [compile], ...rest } =
    JSON.parse(readFileSync(join(import.meta.dirname, "../test/fixtures/sample.explore.json"), "utf8"));
  const without = { id: "f9", title: "cell", started: 0, seconds: 0,
    stages: [{ id: "f9/0", name: "decode", started: 0, seconds: 0, depth: 0 }] };
  const give = (how: "mount" | "update", compiles: readonly object[]) => on.page.evaluate(
    ([call, record]) => (window as unknown as Bare)[call](record), [how, { ...rest, compiles }] as const);
  const selected = on.page.locator("[role=treeitem][aria-selected=true]");
  await give("mount", [without, { ...without, id: "f8", title: "other" }]);
  assert.match(await selected.innerText(), /^f9/);
  await give("update", [without, compile]);
  assert.match(await selected.innerText(), new RegExp(`^${compile.id}`));
  await on.page.locator("[role=treeitem]", { hasText: "f9 cell" }).click();
  await give("update", [without, compile]);
  assert.match(await selected.innerText(), /^f9/);
  await on.end();
});

test("at 700 pixels in an output the panes have room, whatever stands above them", async () => {
  const on = await barePage(browser, { width: 700, height: 900 });
  const record = JSON.parse(readFileSync(join(import.meta.dirname, "../test/fixtures/sample.explore.json"), "utf8"));
  await on.page.evaluate(() => document.getElementById("viewer")?.classList.remove("ex-fill"));
  await on.page.evaluate(given => (window as unknown as Bare).mount(given),
    { ...record,
      notes: Array(12)
        .fill("A note that takes a line of its own and goes on for a while, so that there is little room below it.") });
  const { height = 0 } = (await on.page.locator(".ex-body").boundingBox()) ?? {};
  assert.ok(height > 250, `${height}`);
  await on.end();
});

test("answers below the tabs open by keyboard, and have no serious fault, light and dark", async () => {
  for (const dark of [false, true]) {
    const on = await barePage(browser, { dark });
    const record = JSON.parse(readFileSync(join(import.meta.dirname, "../test/fixtures/sample.explore.json"), "utf8"));
    const answers = ["schedule", "timing", "code", "graphs", "memory"].map(
      pane => ({ pane, title: `What of ${pane}?`, lines: Array(40).fill(`s0: ${pane} ${"goes on ".repeat(40)}`) }));
    await on.page.evaluate(given => (window as unknown as Bare).mount(given), { ...record, answers });
    for (const { pane, title } of answers) {
      const open = await openPane(on.page.locator("#viewer"), pane);
      const summary = open.locator("summary", { hasText: title });
      await summary.focus();
      await on.page.keyboard.press("Enter");
      await open.locator("pre", { hasText: `s0: ${pane}` }).waitFor();
      await on.page.keyboard.press("Tab");
      assert.equal(await on.page.evaluate(() => document.activeElement?.tagName), "PRE",
        "what scrolls is reached by keyboard");
      assert.deepEqual(await faults(on.page), [], pane);
    }
    assert.deepEqual(on.errors, []);
    await on.end();
  }
});

test("two environments compared: all of it by keyboard, without a serious fault", async () => {
  const record = JSON.parse(readFileSync(join(import.meta.dirname, "../test/fixtures/sample.explore.json"), "utf8"));
  const other = { ...record, environment: { ...record.environment, torch: "99.0", "a library": "1.0" } };
  for (const [dark, width] of [[false, 1440], [true, 700]] as const) {
    const on = await barePage(browser, { dark, width });
    await on.page.evaluate(given => (window as unknown as Bare).compare(...given), [record, other] as const);
    const summary = on.page.getByRole("region", { name: "Summary" });
    assert.match(await summary.innerText(),
      /torch\s[^\n]*99\.0[\s\S]*a library\s+absent\s+1\.0|a library\s+absent\s+1\.0[\s\S]*torch\s[^\n]*99\.0/);
    assert.deepEqual(await faults(on.page), []);
    const list = on.page.getByRole("listbox", { name: "Stages compared" });
    await list.focus();
    const names = new Set<string>();
    for (let n = 0; n < 4; n++) {
      names.add(await list.locator("[aria-selected=true]").innerText());
      await on.page.keyboard.press("ArrowDown");
      assert.deepEqual(await faults(on.page), []);
    }
    assert.equal(names.size, 4, "arrows go through what is compared");
    const passed: string[] = [];
    for (let n = 0; n < 12; n++) {
      await on.page.keyboard.press("Tab");
      passed.push(await on.page.evaluate(
        () => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""));
    }
    assert.ok(new Set(passed).size > 3, `Tab stays within ${passed.join()}`);
    await on.picture(`environments-${width}`);
    assert.deepEqual(on.errors, []);
    await on.end();
  }
});

test("the time axis is walked, zoomed and read by keyboard, without a serious fault", async () => {
  const record = JSON.parse(readFileSync(join(import.meta.dirname, "../test/fixtures/sample.explore.json"), "utf8"));
  for (const [dark, width] of [[false, 1440], [true, 700]] as const) {
    const on = await barePage(browser, { dark, width });
    await on.page.evaluate(given => (window as unknown as Bare).mount(given), record);
    const pane = await openPane(on.page.locator("#viewer"), "timeline");
    const stop = pane.locator("svg [role=img][tabindex='0']");
    await stop.first().waitFor();
    assert.equal(await stop.count(), 1, "the bars are one tab stop");
    await stop.focus();
    const name = () =>
      on.page.evaluate(() => document.activeElement?.getAttribute("aria-label")
        ?? document.activeElement?.querySelector("title")?.textContent ?? "");
    const first = await name();
    assert.match(first, /: .*s/, "a bar says what it is and how long it took");
    await on.page.keyboard.press("ArrowRight");
    const second = await name();
    assert.notEqual(second, first);
    await on.page.keyboard.press("Enter");
    await pane.locator("svg .ex-current").waitFor();
    await on.page.keyboard.press("z");
    await pane.getByRole("button", { name: "Zoom out" }).waitFor();
    assert.equal(await name(), second, "zooming keeps the focus");
    assert.deepEqual(await faults(on.page), [], "zoomed");
    await on.page.keyboard.press("Escape");
    await pane.getByRole("button", { name: "Zoom out" }).waitFor({ state: "hidden" });
    assert.equal(await name(), second);
    await pane.getByRole("checkbox").focus();
    await on.page.keyboard.press(" ");
    assert.deepEqual(await faults(on.page), [], "show the time between compiles");
    await on.picture(`timeline-${width}`);
    assert.deepEqual(on.errors, []);
    await on.end();
  }
});
