import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readRecord } from "../src/viewer/read";
import type { RecordData } from "../src/viewer/record";

const text = readFileSync(join(import.meta.dirname, "fixtures/sample.explore.json"), "utf8");
const sample = () => JSON.parse(text) as RecordData;
type Step = string | number;

/** Every place in a value, the value itself aside. */
function* places(value: unknown, above: readonly Step[] = []): Iterable<readonly Step[]> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, each] of Object.entries(value)) {
    const here = [...above, Array.isArray(value) ? Number(name) : name];
    yield here;
    yield* places(each, here);
  }
}

function at(value: unknown, steps: readonly Step[]): unknown {
  return steps.reduce((of, step) => (of as { [step: Step]: unknown })[step], value);
}

function changed(steps: readonly Step[], to: unknown): RecordData {
  const record = sample();
  (at(record, steps.slice(0, -1)) as { [step: Step]: unknown })[steps.at(-1) ?? ""] = to;
  return record;
}

function named(steps: readonly Step[]): string {
  return steps.map(step => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("").slice(1);
}

test("a record that fits is taken as it is", () => {
  const record = sample();
  assert.equal(readRecord(record), record);
});

test("of very many entries the first are kept, and it is told", () => {
  const found = [...places(sample())].find(steps => steps.at(-1) === "parts");
  assert.ok(found);
  const many = Object.fromEntries(Array.from({ length: 5001 }, (_, n) => [`part${n}`, "text"]));
  const record = readRecord(changed(found, many));
  assert.equal(Object.keys(at(record, found) as object).length, 5000);
});

test("what is no record, or one of a newer version, is refused with a reason", () => {
  assert.throws(() => readRecord({ ...sample(), version: 99 }), /newer.*99/);
  assert.throws(() => readRecord({ ...sample(), version: 1 }), /older.*version 1;.*Run the program again/);
  for (const each of [null, 3, "x", [], {}, { version: "1", compiles: [] }, { version: 2, compiles: {} }]) {
    assert.throws(() => readRecord(each), /not a record|damaged/);
  }
});

/** Nothing in a record is a symbol's text, so that this is of the wrong kind everywhere but in a dictionary of
 * texts. */
const WRONG: readonly unknown[] = [null, true, -0.5, "☃", [["☃"]], { "☃": { "☃": 1 } }];

/** The fields that may be null, or of more than one kind. */
const SEVERAL_KINDS =
  new Set(
    Array.from(readFileSync(join(import.meta.dirname, "../src/viewer/record.ts"), "utf8")
      .matchAll(/readonly (\w+)\??: [^;]* \| /g), ([, name]) => name));

test("whatever is of the wrong kind is told of by its place, and the rest is shown", () => {
  let [partial, refused] = [0, 0];
  for (const steps of places(sample())) {
    const name = named(steps);
    const before = at(sample(), steps);
    for (const wrong of WRONG) {
      if (typeof wrong === typeof before && (before === null) === (wrong === null)
        && Array.isArray(before) === Array.isArray(wrong)) continue;
      const record = changed(steps, wrong);
      const taken = attempt(record);
      if (taken instanceof Error) {
        refused++;
        assert.ok(taken.message.includes(name), `${taken.message} does not name ${name}`);
      } else if (taken === record) {
        assert.ok(SEVERAL_KINDS.has(/(\w+)(\[\d+\])*$/.exec(name)?.[1] ?? ""), `${name}: ${JSON.stringify(wrong)}`);
      } else {
        partial++;
        assert.ok(taken.notes?.at(-1)?.includes(name), `${taken.notes?.at(-1)} does not name ${name}`);
        const { notes: _, ...rest } = taken;
        assert.equal(readRecord(rest as unknown), rest, `${name}: what is left does not fit`);
      }
    }
  }
  assert.ok(partial > 500 && refused > 20, `${partial} shown in part, ${refused} refused`);
});

function attempt(record: unknown): RecordData | Error {
  try {
    return readRecord(record);
  } catch (error) {
    return error as Error;
  }
}

test("what is missing is named, and costs no more than what it is in", () => {
  const record = sample();
  const [compile] = record.compiles;
  const guards = compile?.guards?.map(({ source: _, ...rest }, n) => (n === 1 ? rest : compile.guards?.[n]));
  const taken = readRecord({ ...record, notes: [], compiles: [{ ...compile, guards }] });
  assert.deepEqual(taken.compiles[0]?.guards, compile?.guards?.filter((_, n) => n !== 1));
  assert.deepEqual(taken.notes, ["Parts of this record are damaged: compiles[0].guards[1].source is missing."]);
});

test("of very many faults some are told, and how many more there are", () => {
  const sources = Array.from({ length: 1000 },
    (_, n) => ({ file: "a.py", first_line: n, text: "x".repeat(n * 100).length > 40 ? n : null }));
  const [note] = readRecord({ ...sample(), notes: [], sources }).notes ?? [];
  assert.match(note ?? "", /sources\[0\]\.text is null, and should be text; .*; and 995 more\.$/);
  assert.ok((note ?? "").length < 1000);
});

test("a number is a finite one, and an index is whole", () => {
  assert.match(String(readRecord({ ...sample(), compiles: [{ ...sample().compiles[0], seconds: Infinity }] }).notes),
    /compiles\[0\]\.seconds/);
  const [source] = sample().sources;
  assert.match(String(readRecord({ ...sample(), sources: [{ ...source, first_line: 1.5 }] }).notes),
    /sources\[0\]\.first_line is 1\.5, and should be a whole number/);
});

test("structures within themselves go only so deep", () => {
  let shape: unknown = { op: "number", value: 1 };
  for (let n = 0; n < 100_000; n++) shape = { op: "-", arguments: [shape] };
  const [compile] = sample().compiles;
  const guards = [{ ...compile?.guards?.[0], shape }];
  const taken = readRecord({ ...sample(), compiles: [{ ...compile, guards }] });
  assert.match(taken.notes?.at(-1) ?? "", /should be at most 100 levels/);
  assert.equal(taken.compiles[0]?.guards?.length, 1);
});

test("long names are cut", () => {
  const [note] = readRecord({ ...sample(), notes: [], environment: { ["n".repeat(10_000)]: 3 } }).notes ?? [];
  assert.match(note ?? "", /environment\.n+… is 3, and should be text/);
  assert.ok((note ?? "").length < 300);
});

test("names of an object's own machinery are names like others", () => {
  const environment = JSON.parse('{"__proto__": "x", "constructor": "y", "toString": 3}') as RecordData["environment"];
  const taken = readRecord({ ...sample(), environment });
  assert.deepEqual(Object.entries(taken.environment), [["__proto__", "x"], ["constructor", "y"]]);
});

test("of a text of many megabytes the first is kept", () => {
  const [source] = sample().sources;
  const sources = [{ file: "m.py", first_line: 1, ...source, text: "x\n".repeat(2e6) }];
  const taken = readRecord({ ...sample(), sources });
  assert.equal(taken.sources[0]?.text.length, 1_000_000);
  assert.match(taken.notes?.at(-1) ?? "", /sources\[0\]\.text is .*, and should be at most 1,000,000 characters/);
});
