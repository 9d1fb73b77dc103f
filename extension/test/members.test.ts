import assert from "node:assert/strict";
import { test } from "node:test";
import { lettered } from "../members.mjs";

test("private members get letters of their own, and text that looks like one stays", () => {
  assert.equal(
    lettered(`class A { #one = "#two"; #two() { return this.#one; } static #three = /#one/; }`),
    `class A { a = "#two"; b() { return this.a; } static c = /#one/; }`,
  );
});

test("a letter that the class has already is passed over", () => {
  assert.equal(lettered("class A { a = 1; #one; constructor(readonly b: number, c: number) { this.#one = c; } }"),
    "class A { a = 1; c; constructor(readonly b: number, c: number) { this.c = c; } }");
});

test("a class within another has its own, and reaches those of the other", () => {
  assert.equal(lettered("class A { #one; f = class { #two; g(a: A) { return a.#one; } }; }"),
    "class A { a; f = class { a; g(a: A) { return a.a; } }; }");
});

test("where a class extends another, neither collides: its members stay private", () => {
  const text = "class B extends A { #one; f() { return this.#one; } }";
  assert.equal(lettered(text), text);
});
