// Regular expressions of the viewer take time in proportion to the text: records come from strangers.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import ts from "typescript";

const SOURCES = join(import.meta.dirname, "../src");
const LENGTH = 4000;
const SUSPECT_MS = 4;

function literals(): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of readdirSync(SOURCES, { recursive: true }) as string[]) {
    if (!name.endsWith(".ts")) continue;
    const walk = (node: ts.Node): void => {
      if (ts.isRegularExpressionLiteral(node)) found.set(node.text, name);
      ts.forEachChild(node, walk);
    };
    walk(ts.createSourceFile(name, readFileSync(join(SOURCES, name), "utf8"), ts.ScriptTarget.Latest, true));
  }
  return found;
}

/** Texts that make a search go back: characters of the expression repeated, alone and two by two, which fail at the
 * end. */
function attacks(body: string): ((length: number) => string)[] {
  const own = body.replace(/\\[a-zA-Z]/g, "").replace(/[\^$*+?{}|\\]/g, "");
  const chars = [...new Set([..."a0 _.-[\"'\\,\n", ...own])];
  return chars.flatMap(one => [
    (length: number) => `!${one.repeat(length)}!`,
    ...chars.flatMap(other => [
      (length: number) => (one + other).repeat(length / 2),
      (length: number) => `${one.repeat(length / 2)}${other.repeat(length / 2)}!`,
    ]),
  ]);
}

function milliseconds(expression: RegExp, text: string): number {
  const start = process.cpuUsage();
  if (expression.global) for (const _ of text.matchAll(expression));
  else expression.exec(text);
  return process.cpuUsage(start).user / 1000;
}

/** The attack under which four times the text takes more than eight times as long. */
function slowed(literal: string): string | undefined {
  const end = literal.lastIndexOf("/");
  const expression = new RegExp(literal.slice(1, end), literal.slice(end + 1));
  return attacks(literal.slice(1, end)).find(attack => {
    const least = (length: number) => Math.min(...[0, 1, 2].map(() => milliseconds(expression, attack(length))));
    return milliseconds(expression, attack(LENGTH)) > SUSPECT_MS
      && least(4 * LENGTH) > 8 * Math.max(least(LENGTH), SUSPECT_MS / 2);
  })?.(20);
}

const SLOW = [
  String.raw`/([A-Za-z_]\w*)(?:\[[^\]]*\])?(?: = |: )/g`, String.raw`/^_+|_+$/g`, String.raw`/([a-z]+\d+)\[/g`,
  String.raw`/.*<locals>\./`, String.raw`/\s*,\s*/`, String.raw`/"(?:\\.|[^"\\])*"/g`,
];

for (const literal of SLOW) test(`a search that goes back is found: ${literal}`, () => assert.ok(slowed(literal)));

test("no regular expression takes more than time in proportion", () => {
  const slow = [...literals()].flatMap(
    ([literal, file]) => (slowed(literal) ? [`${file}: ${literal} on ${slowed(literal)}`] : []));
  assert.deepEqual(slow, []);
});
