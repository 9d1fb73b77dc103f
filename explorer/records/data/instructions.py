"""x86-64 assembly as a person reads it: what an instruction does, in a line, and Intel's syntax for the compiler's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from explorer.ir.record import LineData, MnemonicData

CONDITIONS = {
    "e": "equal", "ne": "not equal", "a": "above (unsigned)", "ae": "above or equal (unsigned)",
    "b": "below (unsigned)",
    "be": "below or equal (unsigned)", "g": "greater (signed)", "ge": "greater or equal (signed)", "l": "less (signed)",
    "le": "less or equal (signed)", "s": "negative", "ns": "not negative", "p": "one is NaN (parity)",
    "np": "none is NaN (no parity)", "o": "overflow", "no": "no overflow", "c": "a carry", "nc": "no carry",
    "nb": "not below (unsigned)", "na": "not above (unsigned)", "nl": "not less (signed)", "ng": "not greater (signed)",
}  # fmt: skip

SIZES = {"b": "BYTE PTR", "w": "WORD PTR", "l": "DWORD PTR", "q": "QWORD PTR"}
BITS = {"b": 8, "w": 16, "l": 32, "q": 64}
VECTORS = {"x": "XMMWORD PTR", "y": "YMMWORD PTR", "z": "ZMMWORD PTR"}

INTEGERS = {
    "mov": "copies", "add": "adds", "sub": "subtracts", "and": "and, bit by bit", "or": "or, bit by bit",
    "xor": "exclusive or, bit by bit; of a register with itself: sets it to 0",
    "cmp": "compares: sets the flags that a jump, set or cmov after it reads", "inc": "adds 1", "dec": "subtracts 1",
    "test": "and, bit by bit, for the flags alone; of a register with itself: is it 0 or negative?",
    "lea": "computes an address, or any sum of that form, without reading memory", "push": "puts on the stack",
    "pop": "takes from the stack", "neg": "changes the sign", "not": "inverts each bit", "imul": "multiplies (signed)",
    "mul": "multiplies (unsigned); the result fills two registers",
    "idiv": "divides (signed): quotient in rax, remainder in rdx; slow",
    "div": "divides (unsigned): quotient in rax, remainder in rdx; slow", "shl": "shifts left", "sal": "shifts left",
    "shr": "shifts right, filling with 0", "sar": "shifts right, keeping the sign", "rol": "rotates left",
    "ror": "rotates right", "adc": "adds, with the carry", "sbb": "subtracts, with the borrow", "xchg": "swaps",
    "xadd": "adds and gives the old value", "cmpxchg": "writes if the old value is as expected", "bt": "reads one bit",
    "tzcnt": "counts the zeros at the low end", "lzcnt": "counts the zeros at the high end",
    "popcnt": "counts the ones", "bsr": "finds the highest one", "bsf": "finds the lowest one",
    "andn": "and with the inverse, bit by bit", "shlx": "shifts left, leaving the flags",
    "shrx": "shifts right, leaving the flags", "sarx": "shifts right, keeping the sign and leaving the flags",
    "rorx": "rotates right, leaving the flags", "blsr": "clears the lowest one", "bzhi": "clears the bits from one on",
    "blsi": "keeps the lowest one", "bts": "sets one bit", "btr": "clears one bit", "mulx": "multiplies, no flags",
}  # fmt: skip
"""With a suffix for the size in AT&T's syntax."""

ALONE = {
    "call": "calls a function", "callq": "calls a function", "ret": "returns", "retq": "returns",
    "jmp": "jumps", "leave": "frees the stack frame",
    "nop": "nothing: fills up to where a loop begins", "endbr64": "marks where an indirect jump may lead",
    "ud2": "never reached: stops the process", "cltq": "widens eax to rax, keeping the sign",
    "cltd": "spreads the sign of eax over edx, for a division",
    "cqto": "spreads the sign of rax over rdx, for a division",
    "lock": "as one step for all threads", "rep": "repeats rcx times", "stosq": "writes rax",
    "movsq": "copies 8 bytes from where rsi points to where rdi does",
    "vzeroupper": "clears the upper halves of vector registers, so that older code runs at full speed",
    "movabsq": "copies a 64-bit constant",
}  # fmt: skip

RENAMED = {
    "cltq": "cdqe", "cltd": "cdq", "cqto": "cqo", "cwtl": "cwde", "movabsq": "movabs", "movslq": "movsxd DWORD PTR",
    "callq": "call", "retq": "ret",
}  # fmt: skip

FLOATS = {
    "ps": "float32", "pd": "float64", "ss": "one float32", "sd": "one float64", "ph": "float16", "sh": "one float16",
}  # fmt: skip
INTS = {"b": "8-bit integers", "w": "16-bit integers", "d": "32-bit integers", "q": "64-bit integers"}

ARITHMETIC = {
    "add": "adds", "sub": "subtracts", "mul": "multiplies", "div": "divides; slow", "sqrt": "square root; slow",
    "max": "the larger of two; of a NaN, the second", "min": "the smaller of two; of a NaN, the second",
    "and": "and, bit by bit", "or": "or, bit by bit", "xor": "exclusive or, bit by bit; with itself: 0",
    "andn": "inverse of the first, and the second, bit by bit", "rndscale": "rounds to a whole number",
    "round": "rounds to a whole number", "blend": "chooses between two, element by element",
    "blendm": "chooses between two by a mask", "blendv": "chooses between two by the sign bits of a third",
    "shuf": "picks elements of two vectors, within lanes of 16 bytes", "unpckl": "interleaves the low halves of two",
    "unpckh": "interleaves the high halves of two", "perm": "rearranges elements", "permil": "rearranges within lanes",
    "permt2": "picks elements of two vectors by a vector of places", "permi2": "picks elements of two vectors",
    "broadcast": "repeats one element in all places", "insert": "puts an element in", "extract": "takes an element out",
    "movmsk": "collects the sign bits in a register", "gatherq": "reads elements from places all over memory; slow",
    "gatherd": "reads elements from places all over memory; slow", "scatterd": "writes elements all over memory; slow",
    "scatterq": "writes elements all over memory; slow", "scalef": "times a power of two", "getexp": "the exponent",
    "getmant": "the mantissa", "hadd": "adds neighbors", "rcp14": "about 1/x", "rsqrt14": "about 1/sqrt(x)",
    "ucomi": "compares, for the flags", "comi": "compares, for the flags", "range": "minimum or maximum, by a code",
    "fpclass": "asks for kinds of numbers (NaN, infinity, zero), into a mask", "fixupimm": "replaces special numbers",
    "mova": "copies, memory aligned", "movu": "copies, memory of any alignment", "mov": "copies",
    "movnt": "writes to memory past the cache", "movl": "copies the low half", "movh": "copies the high half",
    "compress": "packs the elements that a mask names", "expand": "spreads elements to where a mask says",
}  # fmt: skip
"""Of floating-point numbers."""

PACKED = {
    "add": "adds", "sub": "subtracts", "mull": "multiplies, keeping the low half", "muld": "multiplies",
    "mulud": "multiplies (unsigned)", "mulh": "multiplies, keeping the high half", "max": "the larger of two",
    "min": "the smaller of two", "maxs": "the larger of two (signed)", "maxu": "the larger of two (unsigned)",
    "mins": "the smaller of two (signed)", "minu": "the smaller of two (unsigned)", "sll": "shifts left",
    "srl": "shifts right, filling with 0", "sra": "shifts right, keeping the sign",
    "sllv": "shifts left, each by its own",
    "srlv": "shifts right, each by its own", "srav": "shifts right, keeping the sign, each by its own",
    "and": "and, bit by bit", "andn": "inverse of the first, and the second", "or": "or, bit by bit",
    "xor": "exclusive or, bit by bit; with itself: 0", "ternlog": "any function of three bits, bit by bit",
    "cmpeq": "compares: equal", "cmpgt": "compares: greater", "broadcast": "repeats one element in all places",
    "blend": "chooses between two, element by element", "blendv": "chooses between two by the sign bits of a third",
    "blendm": "chooses between two by a mask", "insr": "puts an element in", "extr": "takes an element out",
    "erm": "rearranges elements", "ermt2": "picks elements of two vectors by a vector of places", "abs": "magnitude",
    "ermi2": "picks elements of two vectors by a vector of places", "shuf": "rearranges elements",
    "addus": "adds, at most the largest (unsigned)", "subus": "subtracts, at least 0 (unsigned)",
    "adds": "adds, within the range", "subs": "subtracts, within the range", "avg": "the mean of two, rounded up",
    "testm": "and, then which are not 0, into a mask", "testnm": "and, then which are 0, into a mask",
    "gatherd": "reads elements from places all over memory; slow", "rol": "rotates left", "ror": "rotates right",
    "gatherq": "reads elements from places all over memory; slow", "unpckl": "interleaves low halves",
    "unpckh": "interleaves high halves", "compress": "packs the elements that a mask names", "lzcnt": "leading zeros",
    "scatterd": "writes elements all over memory; slow", "scatterq": "writes elements all over memory; slow",
    "alignr": "shifts two joined vectors, byte by byte", "sign": "gives one the sign of the other",
    "popcnt": "counts the ones", "hadd": "adds neighbors", "conflict": "which elements are equal",
}  # fmt: skip
"""Of integers in vectors."""

PARTS = {
    "extract": "takes a part of a vector out", "insert": "puts a part into a vector",
    "broadcast": "repeats a part in all places", "shuf": "picks parts of two vectors",
}  # fmt: skip
HALVES = {
    "lh": "the low half into the high half", "hl": "the high half into the low half", "l": "the low half",
    "h": "the high half",
}  # fmt: skip

MASKS = {
    "mov": "copies", "and": "and", "or": "or", "xor": "exclusive or", "andn": "inverse of the first, and the second",
    "xnor": "equal bits; with itself: all ones", "not": "inverts", "shiftl": "shifts left", "shiftr": "shifts right",
    "ortest": "or, for the flags", "test": "and, for the flags", "unpck": "joins two halves", "add": "adds",
}  # fmt: skip
MASK_SIZES = {"b": "8", "w": "16", "d": "32", "q": "64"}

PREDICATES = {
    "eq": "equal", "neq": "not equal, or one is NaN", "lt": "less", "le": "less or equal", "gt": "greater",
    "ge": "greater or equal", "nlt": "not less (or one is NaN)", "nle": "not less or equal (or one is NaN)",
    "ngt": "not greater (or one is NaN)", "nge": "not greater or equal (or one is NaN)", "unord": "one is NaN",
    "ord": "none is NaN", "": "by a code",
}  # fmt: skip

CONVERTED = {
    "ps": "float32", "pd": "float64", "ss": "one float32", "sd": "one float64", "ph": "float16", "sh": "one float16",
    "dq": "32-bit integers", "qq": "64-bit integers", "udq": "unsigned 32-bit integers", "si": "one integer",
    "uqq": "unsigned 64-bit integers", "usi": "one unsigned integer", "w": "16-bit integers", "neps2bf16": "bfloat16",
}  # fmt: skip

_KEYS = "|".join(CONVERTED)
_CONVERSION = re.compile(rf"v?cvt(t?)({_KEYS})2({_KEYS})([lqxyz]?)")
_FUSED = re.compile(r"vf(n?)m(add|sub)(\d{3})(ps|pd|ss|sd|ph|sh)")
_COMPARED = re.compile(rf"v?cmp({'|'.join(PREDICATES)})(ps|pd|ss|sd|ph|sh)")
_WIDENED = re.compile(r"v?pmov(s|z)x([bwd])([wdq])")
_PART = re.compile(r"v(extract|insert|broadcast|shuf)([fi])\d+(?:x\d)?")
_INTEGER_SHIFT = re.compile(r"v?ps(l|r)ldq")


def _suffixed(name: str) -> tuple[str, str] | None:
    """An integer instruction and its size, if it is one with a suffix. GCC writes none where a cmov has a condition."""
    whole, size = name[:-1], name[-1:]
    conditional = whole.startswith("cmov") and whole[4:] in CONDITIONS and name[4:] not in CONDITIONS
    return (whole, size) if size in SIZES and (whole in INTEGERS or conditional) else None


def meaning(name: str) -> str:
    """What an instruction does, in a line; "" for one that is not known. `name` is AT&T's."""
    if name in ALONE:
        return ALONE[name]
    if (split := _suffixed(name)) is not None:
        return f"{meaning(split[0])} ({BITS[split[1]]} bits)"
    if name in INTEGERS:
        return INTEGERS[name]
    for start, words in (("cmov", "copies if: {}"), ("set", "1 if: {}, else 0"), ("j", "jumps if: {}")):
        if name.startswith(start) and (condition := CONDITIONS.get(name[len(start) :])):
            return words.format(condition)
    if found := re.fullmatch(r"mov([sz])([bwl])([wlq])", name):
        how = "keeping the sign" if found[1] == "s" else "filling with 0"
        return f"widens {BITS[found[2]]} to {BITS[found[3]]} bits, {how}"
    return _of_vectors(name)


def _of_vectors(name: str) -> str:
    if found := _CONVERSION.fullmatch(name):
        return f"converts {CONVERTED[found[2]]} to {CONVERTED[found[3]]}" + (", towards 0" if found[1] else "")
    if found := _FUSED.fullmatch(name):
        product = "minus the product" if found[1] else "a product"
        return f"{product}, {'plus' if found[2] == 'add' else 'minus'} a third, rounded once: {FLOATS[found[4]]}"
    if found := _COMPARED.fullmatch(name):
        return f"compares: {PREDICATES[found[1]]}: {FLOATS[found[2]]}"
    if found := _WIDENED.fullmatch(name):
        how = "keeping the sign" if found[1] == "s" else "filling with 0"
        return f"widens {INTS[found[2]]} to {INTS[found[3]]}, {how}"
    if found := _INTEGER_SHIFT.fullmatch(name):
        return f"shifts {'left' if found[1] == 'l' else 'right'} by whole bytes"
    if found := re.fullmatch(r"v?pcmp(u?)(eq|neq|lt|le|gt|ge|nlt|nle|)(u?)([bwdq])", name):
        unsigned = " (unsigned)" if found[1] or found[3] else ""
        return f"compares: {PREDICATES[found[2]].partition(' (or')[0].partition(',')[0]}{unsigned}: {INTS[found[4]]}"
    if found := re.fullmatch(r"v?mov(ap|up|dq[au])(s|d|8|16|32|64|)", name):
        return f"copies a vector{', memory aligned' if found[1] in ('ap', 'dqa') else ''}"
    if found := re.fullmatch(r"v?mov([dq])", name):
        return f"copies {'32' if found[1] == 'd' else '64'} bits to or from a vector register"
    if found := re.fullmatch(r"v?mov(lh|hl|s[lh]dup|ddup|[lh])(ps|pd)?", name):
        return f"copies {HALVES.get(found[1], 'every second element, twice')}"
    if found := _PART.fullmatch(name):
        return PARTS[found[1]]
    if found := re.fullmatch(r"valign([dq])", name):
        return f"shifts two joined vectors by whole elements: {INTS[found[1]]}"
    if found := re.fullmatch(r"k(\w+?)([bwdq])(?:w|d|q)?", name):
        if found[1] in MASKS:
            return f"{MASKS[found[1]]}: masks of {MASK_SIZES[found[2]]} bits"
    if found := re.fullmatch(r"v?p(\w+?)(us|s)?([bwdq])", name):
        if f"{found[1]}{found[2] or ''}" in PACKED:
            return f"{PACKED[found[1] + (found[2] or '')]}: {INTS[found[3]]}"
    if found := re.fullmatch(r"v?punpck([lh])(?:bw|wd|dq|qdq)", name):
        return f"{PACKED[f'unpck{found[1]}']} of two"
    if found := re.fullmatch(r"v?pack(us|ss)(wb|dw)", name):
        return "narrows integers of two vectors to half their bits, within the range"
    if re.fullmatch(r"vperm2[fi]128", name):
        return "picks halves of two vectors"
    if found := re.fullmatch(r"v?p(and|andn|or|xor)", name):
        return PACKED[found[1]]
    if found := re.fullmatch(r"v?(\w+?)(ps|pd|ss|sd|ph|sh)", name):
        if found[1] in ARITHMETIC:
            return f"{ARITHMETIC[found[1]]}: {FLOATS[found[2]]}"
    return ""


def intel_name(name: str) -> str:
    """The name in Intel's syntax, with the size of what it reads from memory where AT&T's name tells it."""
    if name in RENAMED:
        return RENAMED[name]
    if found := re.fullmatch(r"mov([sz])([bwl])([wlq])", name):
        return f"mov{found[1]}x {SIZES[found[2]]}"
    if (split := _suffixed(name)) is not None:
        return split[0] if split[0] == "lea" else f"{split[0]} {SIZES[split[1]]}"
    if (found := _CONVERSION.fullmatch(name)) and found[4]:
        sized = "2".join((found[2], found[3])) if found[4] in VECTORS or found[2] in ("si", "usi") else ""
        size = VECTORS.get(found[4]) or SIZES[found[4]]
        return name[:-1] + (f" {size}" if sized else "")
    return name


_LINE = re.compile(r"(\s+)((?:lock |rep[a-z]* |notrack |\{evex\} )*)([a-z]\w*)(?![\w:])(\s*)(.*)")
_MEMORY = re.compile(r"(\*?)((?:%[c-gs]s:)?)([^(){}]*)\((%\w+)?(?:,(%\w+)?(?:,(\d))?)?\)(.*)")
_OPERAND = re.compile(r"(?:[^,()]|\([^()]*\))+")


def intel(line: str) -> str:
    """A line of AT&T's assembly, as GCC and LLVM write it for x86-64, in Intel's syntax. Labels stay as they are."""
    code = line.partition("#")[0].rstrip()
    found = _LINE.fullmatch(code)
    if found is None:
        return line
    comment = line[len(code) :]
    indent, prefix, name, space, operands = found.groups()
    if not operands:
        return f"{indent}{prefix}{intel_name(name).partition(' ')[0]}{comment}"
    written, _, size = intel_name(name).partition(" ")
    if name == "movq" and "mm" in operands:
        written = name
    parts = [_operand(each.strip(), size) for each in reversed(_OPERAND.findall(operands))]
    return f"{indent}{prefix}{written}{space}{', '.join(parts)}{comment}"


def _operand(text: str, size: str) -> str:
    found = _MEMORY.fullmatch(text)
    if found is None:
        bare = re.sub(r"^\*", "", re.sub(r"%(?=\w)", "", text))
        if not bare.startswith("$"):
            return bare
        return bare[1:] if re.fullmatch(r"\$-?(0x[\da-fA-F]+|\d+)", bare) else f"OFFSET FLAT:{bare[1:]}"
    star, segment, offset, base, index, scale, rest = found.groups()
    terms = [each[1:] for each in (base,) if each]
    terms += [index[1:] + f"*{scale}" * (scale not in (None, "1"))] if index else []
    terms += [offset] if offset and offset != "0" else []
    inside = "+".join(terms).replace("+-", "-")
    prefix = "QWORD PTR " if star else f"{size} " if size else ""
    return f"{prefix}{segment.replace('%', '')}[{inside}]{rest.replace('%', '')}"


def mnemonic(line: str) -> str:
    """The instruction of a line of assembly; "" of a label."""
    found = _LINE.fullmatch(line)
    return found[3] if found is not None else ""


def mnemonics(lines: Iterable[LineData]) -> dict[str, MnemonicData]:
    """What is known of each instruction that these lines hold, by its name in AT&T's syntax."""
    names = sorted({name for line in lines if (name := mnemonic(line.text))})
    return dict(_known(names))


def _known(names: Iterable[str]) -> Iterator[tuple[str, MnemonicData]]:
    for name in names:
        written, words = intel_name(name), meaning(name)
        if words or written != name:
            yield name, MnemonicData(words, "" if written == name else written)
