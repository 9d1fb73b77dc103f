// Private members under names of one letter.
import ts from "typescript";

const LETTERS = [..."abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"];

/** A script of ours in which `this.#name` of a class is `this.a`: a byte less, some thousand times. What a class has
 * beside its private members has longer names, or keeps its letter; where one class extends another, both stay as
 * they are. */
export function lettered(text) {
  const file = ts.createSourceFile("", text, ts.ScriptTarget.Latest, true);
  const found = [];
  const visit = (node, names) => {
    if (ts.isClassLike(node))
      names = node.heritageClauses?.some(each => each.token === ts.SyntaxKind.ExtendsKeyword)
        ? names : new Map([...names, ...letters(node)]);
    if (ts.isPrivateIdentifier(node) && names.has(node.text))
      found.push([node.getStart(), node.text, names.get(node.text)]);
    ts.forEachChild(node, each => visit(each, names));
  };
  visit(file, new Map());
  for (const [at, from, to] of found.reverse()) text = text.slice(0, at) + to + text.slice(at + from.length);
  return text;
}

function letters({ members }) {
  const names =
    members.flatMap(
      each => (ts.isConstructorDeclaration(each)
        ? each.parameters.filter(one => one.modifiers) : each.name ? [each] : [])).map(each => each.name);
  const hidden = [...new Set(names.filter(ts.isPrivateIdentifier).map(each => each.text))];
  const free = LETTERS.filter(letter => !names.some(each => each.text === letter));
  return hidden.slice(0, free.length).map((name, n) => [name, free[n]]);
}
