// Colors for code: enough to read generated programs by, one line at a time.

export type TokenKind = "comment" | "string" | "number" | "keyword" | "name" | "label";

export interface Token {
  readonly from: number;
  readonly to: number;
  readonly kind: TokenKind;
}

interface Language {
  readonly rule: RegExp;
  readonly kinds: readonly TokenKind[];
  readonly keywords: ReadonlySet<string>;
}

/** Alternatives in order of precedence; a word is a keyword where it is in the list, and plain otherwise. */
function language(alternatives: readonly (readonly [TokenKind, string])[], keywords: string): Language {
  const word = String.raw`[A-Za-z_][\w]*`;
  const rule = new RegExp([...alternatives.map(([, pattern]) => `(${pattern})`), `(${word})`].join("|"), "g");
  return { rule, kinds: [...alternatives.map(([kind]) => kind), "keyword"], keywords: new Set(keywords.split(" ")) };
}

const QUOTED = String.raw`"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?`;
const DOUBLE_QUOTED = String.raw`"(?:\\.|[^"\\])*"?`;
const NUMBER = String.raw`(?<![\w$%.])-?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)[fFuUlL]*(?![\w.])`;

const PYTHON = language(
  [["comment", "#.*"], ["string", `[rbfuRBFU]{0,2}(?:${QUOTED})`],
    ["name", String.raw`@[\w.]+|(?<=\b(?:def|class)\s)\w+`], ["number", NUMBER]],
  "and as assert async await break class continue def del elif else except False finally for from global if import in "
    + "is "
  + "lambda None nonlocal not or pass raise return True try while with yield",
);
const CPP = language(
  [["comment", String.raw`//.*|/\*.*?(?:\*/|$)`], ["keyword", String.raw`^\s*#\s*\w+`], ["string", QUOTED],
    ["number", NUMBER]],
  "auto bool break case char const constexpr continue default do double else enum extern false float for if inline "
    + "int long "
  + "namespace new nullptr restrict return short signed sizeof static struct switch template true typedef typename "
  + "union "
  + "unsigned using void volatile while int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t __restrict__",
);
const ASSEMBLY = language(
  [
    ["comment", String.raw`(?:#|//|;).*|/\*.*?\*/`], ["label", String.raw`^[\w.$@]+:`], ["string", DOUBLE_QUOTED],
    ["name", String.raw`[%$][\w.]+`], ["keyword", String.raw`^\s*(?:@!?%?\w+\s+)?[.A-Za-z][\w.]*`],
    ["number", String.raw`(?<![\w$%.])\$?-?(?:0[xXfF][0-9a-fA-F]+|\d+)(?![\w.])`],
  ],
  "",
);
const SASS = language(
  [
    ["comment", String.raw`/\*.*?\*/`], ["label", String.raw`^[\w.$]+:`],
    ["name", String.raw`\b(?:UR|UP|R|P)(?:\d+|Z|T)\b`],
    ["keyword", String.raw`(?<=\*/\s*(?:@!?U?P\w\s+)?)[A-Z][\w.]*`],
    ["number", String.raw`\b0x[0-9a-f]+\b|(?<![\w.])-?\d+\.?\d*\b`],
  ],
  "",
);
const LLVM = language(
  [
    ["comment", String.raw`;.*|//.*`], ["string", DOUBLE_QUOTED], ["name", String.raw`[%@!#][\w.$]+`],
    ["number", NUMBER],
    ["keyword",
      String.raw`\b(?:tt|ttg|ttng|arith|math|scf|cf|llvm|nvvm|gpu)\.[\w.]+|(?<=^\s*(?:%\S+ = )?(?:tail )?)[a-z]\w+`],
  ],
  "define declare attributes module target source_filename to i1 i8 i16 i32 i64 f16 f32 f64 bf16 float double half "
    + "ptr void label",
);

const BYTECODE = language(
  [["keyword", String.raw`^\s*[A-Z][A-Z_0-9]+`], ["string", QUOTED], ["name", String.raw`→ \d+`], ["number", NUMBER]],
  "None True False",
);

const LANGUAGES: ReadonlyMap<string, Language> = new Map(Object.entries({
  bytecode: BYTECODE, python: PYTHON, triton: PYTHON, cpp: CPP, c: CPP, gas: ASSEMBLY, asm: ASSEMBLY, ptx: ASSEMBLY,
  sass: SASS, llvm: LLVM, mlir: LLVM,
}));

/** Lines longer than this are shown plain: nobody reads them for their colors. */
const LONGEST = 2000;

/** The colored parts of a line. `inside` is the quote of a string that goes on from the line before (`quotes`). */
export function tokens(line: string, name: string, inside = ""): readonly Token[] {
  const known = LANGUAGES.get(name);
  if (!known || line.length > LONGEST) return [];
  const found: Token[] = [];
  let at = 0;
  if (inside) {
    const end = line.indexOf(inside);
    at = end < 0 ? line.length : end + 3;
    found.push({ from: 0, to: at, kind: "string" });
  }
  known.rule.lastIndex = at;
  for (let match = known.rule.exec(line); match && match[0]; match = known.rule.exec(line)) {
    const opening = known === PYTHON ? /^[rbfuRBFU]{0,2}("""|''')/.exec(line.slice(match.index)) : null;
    if (opening) {
      const close = line.indexOf(opening[1] as string, match.index + opening[0].length);
      const to = close < 0 ? line.length : close + 3;
      found.push({ from: match.index, to, kind: "string" });
      known.rule.lastIndex = to;
      continue;
    }
    const kind = known.kinds[match.slice(1).findIndex(part => part !== undefined)] as TokenKind;
    const word = match[known.kinds.length] !== undefined;
    if (!word || known.keywords.has(match[0]))
      found.push({ from: match.index, to: match.index + match[0].length, kind });
  }
  return found;
}

const QUOTE = /#|"""|'''|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?/g;

/** For each line of a Python text, the triple quote of the string that it begins in, or "". */
export function quotes(lines: readonly string[]): string[] {
  let inside = "";
  return lines.map(line => {
    const began = inside;
    let from = 0;
    for (;;) {
      if (inside) {
        const end = line.indexOf(inside, from);
        if (end < 0) return began;
        from = end + inside.length;
      }
      QUOTE.lastIndex = from;
      const [found] = QUOTE.exec(line) ?? [""];
      from = QUOTE.lastIndex;
      if (found === "" || found === "#") return began;
      inside = found === '"""' || found === "'''" ? found : "";
    }
  });
}
