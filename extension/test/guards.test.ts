import assert from "node:assert/strict";
import { test } from "node:test";
import type { CompileData, ConstantData, ExpressionData, GuardData, InputData, RecordData, TensorFactsData } from
  "../src/viewer/record";
import { decide, type Call } from "../src/viewer/panes/guards/check";
import { contiguous, fromGuards, isContiguous, kindOf, KINDS, Mistyped, ofKind, parseConstant, parseSizes, resized,
  seenBy, writtenSizes } from "../src/viewer/panes/guards/described";
import { Exact, Undecided, holds, leaves, leafName } from "../src/viewer/panes/guards/expression";
import { compilesOfFrame, outlook, recordedSizes } from "../src/viewer/panes/guards/outlook";

const number = (value: number): ExpressionData => ({ op: "number", value });
const of = (op: string, ...args: (ExpressionData | number)[]): ExpressionData =>
  ({ op, arguments: args.map(each => (typeof each === "number" ? number(each) : each)) });
const size = (dim: number, source = "L['x']"): ExpressionData => ({ op: "size", value: dim, source });
const none = () => { throw new Undecided("not described"); };
const is = (expression: ExpressionData) => holds(expression, none);
const refuses = (expression: ExpressionData, why: RegExp) =>
  assert.throws(() => is(expression), (error: unknown) => error instanceof Undecided && why.test(error.message));

test("arithmetic is Python's", () => {
  // [expression, what Python gives]
  const known: [ExpressionData, number | [number, number]][] = [
    [of("//", -7, 2), -4], [of("//", 7, -2), -4], [of("%", -7, 3), 2], [of("%", 7, -3), -2], [of("/", 7, 2), [7, 2]],
    [of("**", 2, 10), 1024], [of("**", 2, -2), [1, 4]], [of("**", 0, 0), 1], [of("**", -1, 1_000_000_001), -1],
    [of("+", 1, 2, 3), 6], [of("*", 2, 3, 4), 24], [of("-", 5), -5], [of("min", 3, 1, 2), 1], [of("max", 3, 1, 2), 3],
    [of("abs", -3), 3], [of("floor", of("/", -1, 2)), -1], [of("ceil", of("/", -1, 2)), 0],
    [of("ceil", of("/", 1, 2)), 1],
    [of("if", of("<", 1, 2), 10, 20), 10], [of("if", of(">", 1, 2), 10, of("+", 10, 20)), 30], [number(0.5), [1, 2]],
  ];
  for (const [expression, value] of known) {
    const expected = Array.isArray(value) ? of("/", value[0], value[1]) : number(value);
    assert.ok(is(of("==", expression, expected)), JSON.stringify(expression));
    assert.ok(!is(of("!=", expression, expected)), JSON.stringify(expression));
  }
});

test("sizes beyond doubles stay exact", () => {
  const large = of("**", 2, 61);
  assert.ok(is(of("<", large, of("+", large, 1))));
  assert.ok(!is(of("==", of("*", large, large), of("+", of("*", large, large), 1))));
});

test("comparisons and logic", () => {
  const truth: [ExpressionData, boolean][] = [
    [of("<", 1, 2), true], [of("<=", 2, 2), true], [of(">", 1, 2), false], [of(">=", 1, 2), false],
    [of("not", of("<", 1, 2)), false],
    [of("and", of("<", 1, 2), of("<", 3, 2)), false], [of("or", of("<", 3, 2), of("<", 1, 2)), true], [of("and"), true],
    [of("or"), false],
  ];
  for (const [expression, expected] of truth) assert.equal(is(expression), expected, JSON.stringify(expression));
});

test("one part settles it although another is unknown", () => {
  assert.equal(is(of("or", of("<", size(0), 2), of("<", 1, 2))), true);
  assert.equal(is(of("and", of("?"), of("<", 2, 1))), false);
  refuses(of("and", of("<", 1, 2), of("<", size(0), 2)), /not described/);
});

test("what cannot be computed is undecided, whatever a record holds", () => {
  refuses(of("==", of("/", 1, 0), 1), /zero/);
  refuses(of("==", of("%", 1, 0), 1), /zero/);
  refuses(of("==", of("**", 0, -1), 1), /zero/);
  refuses(of("<", of("**", 10, of("**", 10, 9)), 1), /too large/);
  refuses(of("<", of("**", 3, of("/", 1, 2)), 1), /whole/);
  refuses(of("<", number(Infinity), 1), /no size/);
  refuses(of("<", number(NaN), 1), /no size/);
  refuses(of("constructor", 1, 2), /does not know/);
  refuses(of("<", 1), /lacks/);
  refuses(number(1), /not a relation/);
  refuses(of("<", of("<", 1, 2), 2), /truth/);
  refuses({ op: "?", text: "floor(s0**0.5)" }, /cannot compute/);
  let deep = of("<", 1, 2);
  for (let n = 0; n < 10_000; n++) deep = of("not", deep);
  refuses(deep, /deep/);
  refuses(of("and", ...Array.from({ length: 30_000 }, () => of("<", 1, 2))), /long/);
  let grown: ExpressionData = number(2 ** 52);
  for (let n = 0; n < 100; n++) grown = of("*", grown, grown);
  refuses(of("<", grown, 1), /too (large|long)|deep/);
});

test("doubles at the edges become the fractions that they are", () => {
  for (const value of [1.7976931348623157e308, 0.1, -0, 2 ** 53, 1e-5]) {
    const exact = Exact.of(value);
    assert.equal(Number(exact.numerator) / Number(exact.denominator) || 0, value || 0);
  }
  assert.deepEqual([Exact.of(5e-324).numerator, Exact.of(5e-324).denominator], [1n, 2n ** 1074n]);
});

test("the leaves of an expression, each once", () => {
  const expression = of("==", of("*", size(0), size(1)), of("+", size(0), { op: "value", source: "L['n']" }));
  assert.deepEqual(leaves(expression).map(leafName), ["L['x'].size(0)", "L['x'].size(1)", "L['n']"]);
});

// ------------------------------------------------------------------------------------------------------- guards

const facts = (changes: Partial<TensorFactsData> = {
  }): TensorFactsData => ({ dtype: "float32", device: "cpu", sizes: [4, 8], strides: [8, 1], ...changes });
const tensor = (changes: Partial<TensorFactsData> = {
  }, source = "L['x']"): InputData => ({ source, kind: "tensor", type: "torch.Tensor", tensor: facts(changes) });
const plain = (type: string, value: boolean | number | string | null, text = String(value)): InputData =>
  ({ source: "L['n']", kind: type === "NoneType" ? "none" : type === "int" || type === "float" ? "number" : type,
    type: `builtins.${type}`, constant: { type, text, value } });
const constant = (type: string, value: boolean | number | string | null,
  text = String(value)): ConstantData => ({ type, text, value });
const guard = (property: string, more: Partial<GuardData>): GuardData =>
  ({ id: `f0.${property}`, source: "L['x']", property, relation: "==", value: "", expression: "", why: "", ...more });
const call = (...inputs: InputData[]): Call => ({ inputs: new Map(inputs.map(each => [each.source, each])),
  state: null });
const outcome = (one: GuardData, of: Call) => {
  const [found] = decide([one], of);
  return [found?.outcome, ...(found?.how ?? [])];
};

test("a tensor's facts, all differences at once", () => {
  const one = guard("tensor", { tensor: facts({ sizes: [null, 8], strides: [8, 1] }) });
  assert.deepEqual(outcome(one, call(tensor({ sizes: [100, 8] }))), ["holds"]);
  assert.deepEqual(outcome(one, call(tensor({ sizes: [1, 9], dtype: "int64", device: "cuda:0", requires_grad: true }))),
    [
    "fails", "dtype is int64, expected float32", "device is cuda:0, expected cpu",
    "requires_grad is True, expected False", "size(1) is 9, expected 8",
  ]);
  assert.deepEqual(outcome(one, call(tensor({ sizes: [8] }))), ["fails", "rank is 1, expected 2"]);
  assert.deepEqual(outcome(one, call(tensor({ sizes: [3, 8], strides: [1, 3] }))),
    ["fails", "stride(0) is 1, expected 8", "stride(1) is 3, expected 1"]);
  assert.deepEqual(outcome(one, call(tensor({ sizes: [1, 8], strides: [77, 1] }))), ["holds"],
    "nobody walks along a size of 1");
  assert.deepEqual(outcome(one, call({ ...plain("int", 3), source: "L['x']" })), ["fails", "is 3, expected a tensor"]);
});

test("constants are the same by type and value", () => {
  const three = guard("constant", { source: "L['n']", constant: constant("int", 3) });
  assert.deepEqual(outcome(three, call(plain("int", 3))), ["holds"]);
  assert.deepEqual(outcome(three, call(plain("float", 3, "3.0"))), ["fails", "is 3.0, expected 3"]);
  assert.deepEqual(outcome(three, call(plain("bool", true, "True"))), ["fails", "is True, expected 3"]);
  const huge = guard("constant", { source: "L['n']", constant: constant("int", null, "9007199254740993") });
  assert.deepEqual(outcome(huge, call(plain("int", null, "9007199254740993"))), ["holds"]);
  assert.equal(outcome(huge, call(plain("int", null, "9007199254740995")))[0], "fails");
});

test("identity is decided for None, True and False alone", () => {
  const none = guard("id", { source: "L['n']", relation: "is", constant: constant("NoneType", null, "None") });
  assert.deepEqual(outcome(none, call(plain("NoneType", null, "None"))), ["holds"]);
  assert.equal(outcome(none, call(plain("int", 3)))[0], "fails");
  const module = guard("id", { source: "L['n']", relation: "is", value: "torch" });
  assert.equal(outcome(module, call({ source: "L['n']", kind: "object", type: "builtins.module" }))[0], "undecided");
  assert.equal(outcome(module, call(plain("NoneType", null, "None")))[0], "fails", "None is no module");
});

test("objects that are the same or distinct", () => {
  const same = guard("alias", { source: "L['y']", relation: "is", others: ["L['x']"] });
  const distinct = guard("alias", { source: "", relation: "are distinct", others: ["L['x']", "L['y']"] });
  const twice = call(tensor(), { ...tensor({}, "L['y']"), same_as: "L['x']" });
  const two = call(tensor(), tensor({}, "L['y']"));
  assert.deepEqual([outcome(same, twice)[0], outcome(same, two)[0]], ["holds", "fails"]);
  assert.deepEqual([outcome(distinct, twice), outcome(distinct, two)[0]], [["fails", "L['y'] is L['x']"], "holds"]);
  assert.equal(outcome(distinct, call(tensor()))[0], "undecided");
});

test("containers", () => {
  const keys = [constant("str", "a", "'a'"), constant("str", "b", "'b'")];
  const given: InputData = { source: "L['x']", kind: "dict", type: "builtins.dict", keys, length: 2 };
  assert.equal(outcome(guard("keys", { keys }), call(given))[0], "holds");
  assert.equal(outcome(guard("keys", { keys: [...keys].reverse() }), call(given))[0], "fails", "the order counts");
  assert.equal(outcome(guard("has", { keys: keys.slice(1), relation: "has key" }), call(given))[0], "holds");
  assert.equal(outcome(guard("has", { keys: [constant("str", "c", "'c'")], relation: "has key" }), call(given))[0],
    "fails");
  assert.equal(outcome(guard("has", { keys: [constant("str", "c", "'c'")], relation: "lacks key" }), call(given))[0],
    "holds");
  assert.equal(outcome(guard("has", { keys, relation: "has attribute" }), call(given))[0], "undecided");
  const list: InputData = { source: "L['x']", kind: "list", type: "builtins.list", length: 0 };
  assert.deepEqual(outcome(guard("length", { length: 2 }), call(list)), ["fails", "length is 0, expected 2"]);
  assert.equal(outcome(guard("empty", { length: 0 }), call(list))[0], "holds");
  assert.deepEqual(outcome(guard("empty", { length: 1 }), call(list)), ["fails", "is empty"]);
  assert.equal(outcome(guard("type", { type: "builtins.tuple" }), call(list))[0], "fails");
  assert.equal(outcome(guard("type", { type: "builtins.list" }), call(list))[0], "holds");
});

test("the global state", () => {
  const state = { grad_enabled: true, autocast: ["cpu bfloat16"], default_dtype: "float32", deterministic: false,
    threads: 2 };
  const one = guard("global_state", { source: "", state });
  assert.deepEqual(decide([one], { inputs: new Map(), state })[0]?.outcome, "holds");
  assert.deepEqual(decide([one], { inputs: new Map(), state: { ...state, grad_enabled: false, autocast: [] } })[0]?.how,
    [
    "grad mode is off, expected on", "autocast is off, expected cpu bfloat16",
  ]);
  assert.equal(decide([one], { inputs: new Map(), state: null })[0]?.outcome, "undecided");
});

test("relations between sizes, with what they are when they fail", () => {
  const one = guard("shape", { shape: of("==", of("%", size(0), 8), 0) });
  assert.deepEqual(outcome(one, call(tensor({ sizes: [16, 8] }))), ["holds"]);
  assert.deepEqual(outcome(one, call(tensor({ sizes: [17, 8] }))), ["fails", "with L['x'].size(0) = 17"]);
  assert.equal(outcome(one, call(tensor({ sizes: [] })))[0], "undecided");
  assert.equal(outcome(one, call(tensor({ sizes: [1e300, 8] })))[0], "holds");
});

test("what is not described, or not understood, never passes", () => {
  for (const property of ["tensor", "type", "constant", "id", "length", "keys", "has", "code", "global_state", "shape",
      "alias", "empty", "value", "news"]) {
    const one = guard(property, { others: ["L['z']"], relation: "is" });
    assert.equal(outcome(one, call())[0], "undecided", property);
    const expected = property === "tensor" ? "fails" : "undecided";
    assert.equal(outcome(one, call({ source: "L['x']", kind: "object", type: "a.B" }))[0], expected, property);
  }
});

// ---------------------------------------------------------------------------------------------------------- form

test("sizes as typed", () => {
  const read: [string, number[]][] = [["4, 8", [4, 8]], ["(4,8,)", [4, 8]], ["[4 8]", [4, 8]], ["4x8", [4, 8]],
    ["", []], ["()", []], ["7", [7]], [" 0 , 1 ", [0, 1]]];
  for (const [text, sizes] of read) assert.deepEqual(parseSizes(text), sizes, text);
  for (const text of ["a", "4, -1", "1.5", "4,,8", "1, 1x0", "99999999999999999999", "1e3", "4, *",
      Array(65).fill("1").join(",")]) {
    assert.throws(() => parseSizes(text), Mistyped, text);
  }
  assert.equal(writtenSizes([4, null]), "4, *");
});

test("strides follow the sizes of a contiguous tensor, and stay where they were chosen", () => {
  assert.deepEqual(contiguous([2, 3, 4]), [12, 4, 1]);
  assert.deepEqual(contiguous([2, 0, 4]), [4, 4, 1]);
  assert.ok(isContiguous(facts()) && isContiguous(facts({ sizes: [1, 8], strides: [3, 1] }))
    && !isContiguous(facts({ strides: [1, 4] })));
  assert.deepEqual(resized(facts(), [2, 3]).strides, [3, 1]);
  assert.deepEqual(resized(facts({ strides: [1, 4] }), [2, 3]).strides, [1, 4]);
  assert.deepEqual(resized(facts({ strides: [1, 4] }), [2]).strides, [1]);
  assert.equal(resized(facts({ strides: null }), [2]).strides, null);
});

test("plain values as typed", () => {
  assert.deepEqual(parseConstant("int", "-007"), constant("int", -7));
  assert.deepEqual(parseConstant("int", "9007199254740993"), constant("int", null, "9007199254740993"));
  assert.deepEqual(parseConstant("float", "2"), constant("float", 2, "2.0"));
  assert.deepEqual(parseConstant("float", "NaN"), constant("float", null, "nan"));
  assert.deepEqual(parseConstant("str", "it's"), constant("str", "it's", "'it\\'s'"));
  for (const [kind, text] of [["int", "1.5"], ["int", ""], ["int", "1".repeat(400)], ["float", ""], ["float", "x"],
      ["float", "1e999"]] as const) {
    assert.throws(() => parseConstant(kind, text), Mistyped, `${kind} ${text}`);
  }
});

test("a value can become one of any kind", () => {
  for (const kind of KINDS) assert.equal(kindOf(ofKind(tensor(), kind)), kind);
});

test("what guards tell of a value that no input describes", () => {
  assert.equal(fromGuards("L['x']", [guard("type", { type: "builtins.list" }), guard("length", { length: 3 })])?.length,
    3);
  assert.equal(fromGuards("L['x']", [guard("tensor", { tensor: facts({ sizes: [null, 8] }) })]), null,
    "a free size was seen, but the guard does not say which");
  const compile: CompileData = {
    id: "f0", title: "f", started: 0, seconds: 0, inputs: [tensor()],
    guards: [guard("constant", { source: "L['k']", constant: constant("int", 3) }),
      guard("tensor", { tensor: facts() }), guard("global_state", { source: "" })],
  };
  const seen = seenBy(compile);
  assert.deepEqual([...seen.keys()], ["L['x']", "L['k']"]);
  assert.ok(decide(compile.guards ?? [], { inputs: seen, state: null }).every(each => each.outcome !== "fails"));
});

// ------------------------------------------------------------------------------------------------------- outlook

function compiled(id: string, sizes: readonly (number | null)[], more: Partial<CompileData> = {}): CompileData {
  return { id, title: "f", started: 0, seconds: 0,
    guards: [guard("tensor", { tensor: facts({ sizes, strides: null }) })], ...more };
}

function record(compiles: CompileData[], config: { [name: string]: string } = {}): RecordData {
  const empty = { version: 1, title: "", engine: "explorer", target: "", created: "", environment: {}, sources: [],
    coverage: {} };
  return { ...empty, compiles, config: { dynamic: "None", recompile_limit: "8", ...config } };
}

const wide = (...sizes: number[]) => call(tensor({ sizes, strides: null }));

test("compiles of one frame", () => {
  const all = [compiled("f1", [1]), compiled("f1.1", [2]), compiled("f10", [3]), compiled("f1.2", [4]),
    compiled("f1", [5], { title: "g" })];
  assert.deepEqual(compilesOfFrame(record(all), all[0] as CompileData).map(each => each.id), ["f1", "f1.1", "f1.2"]);
});

test("another compile of the frame may accept the call", () => {
  const all = [compiled("f0", [4, 8]), compiled("f0.1", [null, 8])];
  const found = outlook(record(all), all[0] as CompileData, wide(6, 8));
  assert.equal(found.accepts?.id, "f0.1");
  assert.deepEqual(found.dynamic, []);
});

test("what was seen to change becomes a symbol; 0 and 1 do not", () => {
  const one = [compiled("f0", [4, 8])];
  const first = one[0] as CompileData;
  assert.deepEqual(outlook(record(one), first, wide(6, 8)).dynamic, ["L['x'].size(0)"]);
  assert.deepEqual(outlook(record(one), first, wide(1, 8)).dynamic, []);
  assert.deepEqual(outlook(record(one), first, wide(6, 8, 2)).dynamic, [], "of another rank nothing was seen");
  assert.deepEqual(outlook(record(one, { dynamic: "False" }), first, wide(6, 8)).dynamic, []);
  assert.deepEqual(outlook(record(one, { dynamic: "True" }), first, wide(6, 8)).dynamic,
    ["L['x'].size(0)", "L['x'].size(1)"]);
  const parameter = call({ ...tensor({ sizes: [6, 8], type: "torch.nn.parameter.Parameter" }) });
  assert.deepEqual(outlook(record(one), first, parameter).dynamic, []);
});

test("the limit of compiles", () => {
  const all = [compiled("f0", [4]), compiled("f0.1", [5])];
  assert.match(outlook(record(all, { recompile_limit: "2" }), all[0] as CompileData, wide(6)).refused, /2 times/);
  assert.equal(outlook(record(all), all[0] as CompileData, wide(6)).refused, "");
});

test("sizes over all compiles", () => {
  const seen = recordedSizes([compiled("f0", [4, 8]), compiled("f0.1", [6, 8]), compiled("f0.2", [7, 8])]);
  assert.deepEqual(seen.get("L['x']"), [null, 8]);
});
