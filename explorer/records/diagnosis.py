"""Diagnosis from the compiles of a record: guards that failed, errors, and code that ran eagerly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from explorer.ir import record as data
from explorer.records.data.calls import OutsideGraphs, Place
from explorer.records.data.dynamo import FAILED, failure_in_words, hint, names

_PLACE = re.compile(r'File "([^"\n]{1,4096})", line (\d{1,9})')
_RAISED_AT = re.compile(r'\n  File "([^"\n]{1,4096})", line (\d{1,9}), in [^\n]*\Z')
"""How a text ends to which `raised_at` added the line."""
_USER = ("from user code:", "User code traceback:", "User stack:", "Framework stack")
_FACT = re.compile(
    r"(?:(?P<what>[\w() ]{1,80}) )?(?:is|are) (?P<seen>.{1,200}), expected (?P<wanted>.{1,200})", re.DOTALL
)

_PARAMETER = re.compile(r"Guard failed on a parameter, consider using (torch\.\S{1,200} = \w{1,20})")
_MEMBER = re.compile(r"type=<(?:(?:class|enum) '(?:\S{1,400}\.)?(\w{1,200})'> \1\.|\w{1,200}\.\w{1,200}: )")
"""A check of an object's identity, and a member of an enumeration that failed it (torch 2.11 writes it there)."""
_LENGTH_OF = re.compile(r"len\((.*)\) == \d{1,20}\Z", re.DOTALL)
_KEY_OF = re.compile(r"list\((?:dict\.keys|\w+)\(")
"""Torch's source of a key of a dict."""

_STATE = "keep torch's global state (deterministic algorithms, TF32) the same for all calls"
FEW_VALUES = "pass few different values: each is compiled once and kept, up to torch._dynamo.config.recompile_limit"
ONE_AND_NONE = "sizes 0 and 1 are always specialized; pad to avoid them, or use one compiled function for each case"
OTHERS = (
    "no change is needed: this is another function, which torch calls from the same code of its own; each is compiled "
    "once and kept, up to torch._dynamo.config.recompile_limit"
)
WAYS = (
    "no change is needed: where this does not hold, the program, or an operator in it, takes another branch; each "
    "branch is compiled once, and both compiles are kept"
)
UNMARKED = (
    "compile with dynamic=True, or remove the graph break before this part: it is computed there, and a mark on an "
    "input (mark_dynamic) does not reach it"
)
_LEAST = re.compile(r"\b2 <= \S{1,200}size\(|size\(\S{1,20} >= 2\b")
"""A dynamic size that is 0 or 1."""
_SIZE = re.compile(r"size\((?P<index>\d{1,9})\)")
_NOW = re.compile(r"(?<!\S)(\S+) = (-?\d{1,20})(?=, |\Z)")
"""A value with which a relation between sizes failed."""


def coverage(compiles: Iterable[data.CompileData]) -> data.CoverageData:
    """Where the ATen calls of all compiles run (or would, on an absent target), and what ran in Python."""
    calls_by_kind: Counter[str] = Counter()
    python: dict[str, None] = {}
    for compile in compiles:
        for half in compile.halves:
            calls_by_kind.update(kind for kind, _ in half.nodes.values())
        if compile.fallback is not None and compile.fallback.code != data.TARGET_ABSENT:
            calls_by_kind["fallback"] += compile.operations
        for b in compile.breaks if not compile.raises else ():
            place = b.span.place() if b.span else b.instruction
            python[f"{place} ({b.why.title})"] = None
        for happened in compile.events:
            if happened.kind == "FrameSkipped":
                python[f"{happened.fields['where']} ({happened.fields['why']})"] = None
            if happened.kind == "CallSkipped":
                python[f"{happened.fields['function']} ({happened.fields['why']})"] = None
    kernel, extern, view, fallback = (calls_by_kind[kind] for kind in ("kernel", "extern", "view", "fallback"))
    return data.CoverageData(kernel, extern, view, fallback, tuple(python))


def failed_guards(compiles: Iterable[data.CompileData]) -> tuple[data.FailedGuardData, ...]:
    """The guards that caused recompiles, most frequent first."""
    known = {compile.id: compile for compile in compiles}
    found: dict[tuple[tuple[str, CodePlace], str, str], list[tuple[data.CompileData, data.RecompileData]]] = {}
    places = {frame_of(compile.id): code_place(compile) for compile in known.values() if compile.codes}
    for compile in known.values():
        for each in causes(compile, known):
            frame = compile.title, places.get(frame_of(compile.id), NO_PLACE)
            found.setdefault((frame, _checked(each, known), compile.engine), []).append((compile, each))
    made = [_failed(frame[0], failures, known) for (frame, _, _), failures in found.items()]
    return tuple(sorted(made, key=lambda each: -each.times))


CodePlace = tuple[str, int, int]
NO_PLACE: CodePlace = "", 0, 0

_AGAIN = re.compile(r"\.\d{1,9}(?=(?:#\d{1,9})?\Z)")


def frame_of(id: str) -> str:
    """The first compile of the same frame: "f0#2" for "f0.1#2"."""
    return _AGAIN.sub("", id)


def code_place(compile: data.CompileData) -> CodePlace:
    """The file, first line and column of the code that was compiled: two functions may be of one name, or one line."""
    if not compile.codes:
        return NO_PLACE
    code = compile.codes[0]
    return code.file, code.line, min(columns(code), default=0)


def columns(code: data.CodeData) -> range:
    """The columns that a function is in; an empty range where they are not known."""
    found = [each.span.column for each in code.instructions if each.span is not None and each.span.column > 0]
    return range(min(found), max(found) + 1) if found else range(0)


def causes(compile: data.CompileData, known: Mapping[str, data.CompileData]) -> tuple[data.RecompileData, ...]:
    """Why it was not enough what was compiled before: the failures of the earlier compile that was nearest to accepting
    the call, the newest of those with fewest. A guard that fails in others alone made no compile necessary."""
    failures: dict[str, list[data.RecompileData]] = {}
    for each in compile.recompiles:
        failures.setdefault(each.of, []).extend(_by_fact(each, known))
    started = {of: known[of].started if of in known else 0.0 for of in failures}
    nearest = min(failures, key=lambda of: (len(failures[of]), -started[of]), default="")
    return tuple(failures.get(nearest, ()))


def _by_fact(each: data.RecompileData, known: Mapping[str, data.CompileData]) -> tuple[data.RecompileData, ...]:
    """A failure of a guard on a tensor, or on torch's state, may be several facts, such as dtype and requires_grad: one
    failure for each."""
    guard = guard_of(each, known)
    several = guard is not None and (guard.tensor is not None or guard.state is not None) and not each.words
    parts = each.why.split(", ") if several else []  # no value of a tensor or of torch's state has a comma
    facts = [f"{seen}, {wanted}" for seen, wanted in zip(parts[::2], parts[1::2], strict=False)]
    return tuple(msgspec.structs.replace(each, why=fact) for fact in facts) or (each,)


def fact(each: data.RecompileData, guard: data.GuardData | None) -> re.Match[str] | None:
    """What of the guard's source differed, and how, where that was one value."""
    text = each.words or each.why
    text = failure_in_words(text) or text  # of records that hold torch's text
    source = names(guard.source) if guard is not None else ""
    if source and text.startswith((f"{source} ", f"{source}.")):
        text = text[len(source) + 1 :]
    return _FACT.fullmatch(re.sub(r"\Ais of type ", "type is ", text))


def guard_of(each: data.RecompileData, known: Mapping[str, data.CompileData]) -> data.GuardData | None:
    guards = known[each.of].guards if each.of in known else ()
    return next((guard for guard in guards if guard.id == each.guard), None)


def _checked(each: data.RecompileData, known: Mapping[str, data.CompileData]) -> str:
    """The check without the values that differ from one compile to the next: what counts as the same guard."""
    guard = guard_of(each, known)
    found = fact(each, guard)
    if guard is not None and found is not None:
        return f"{guard.source} {found['what'] or ''}"
    return re.sub(r"(==|!=) [^,)]*|\b\d{9,}\b", r"\1", each.expression.partition("  #")[0])


def _failed(
    title: str, failures: list[tuple[data.CompileData, data.RecompileData]], known: dict[str, data.CompileData]
) -> data.FailedGuardData:
    last = failures[-1][1]
    guard = guard_of(last, known)
    made = tuple(dict.fromkeys(compile.id for compile, _ in failures))
    values = tuple(dict.fromkeys(value for compile, each in failures for value in guarded_values(each, known)))
    span = guard.span if guard is not None else None
    words = last.words.removeprefix(FAILED) or (guard.words if guard is not None else "")
    found = fact(last, guard)
    if guard is not None and guard.shape is not None:
        words = guard.words
    if guard is not None and found is not None:
        words = _asked(names(guard.source), found["what"] or "") if found["what"] or len(values) > 2 else guard.words
    elif found is not None and (of := _LENGTH_OF.match(last.expression)) is not None:
        words = _asked(names(of[1]), "length")
    advice = dict.fromkeys(stops(each, known, known.get(compile.id)) for compile, each in failures)
    advised = "; ".join(filter(None, advice))
    also = len(made) - len({compile.id for compile, each in failures if each == causes(compile, known)[0]})
    return data.FailedGuardData(
        title, last.expression, len(made), values, advised, last.of, last.guard, made, span, words, also
    )


def _asked(source: str, what: str) -> str:
    """What a guard asks about `source`, "" for torch's state, without the values."""
    if source and what in ("", "length", "type", "keys"):
        return f"the {what or 'value'} of {source}"
    return f"{source}.{what}".removeprefix(".")


def guarded_values(each: data.RecompileData, known: Mapping[str, data.CompileData]) -> tuple[str, ...]:
    """(expected, actual) values of the guard."""
    guard = guard_of(each, known)
    wanted = guard.constant.text if guard is not None and guard.constant is not None else ""
    if (found := fact(each, guard)) is not None:
        known_end = f", expected {wanted}"
        if wanted and not found["what"] and found.string.endswith(known_end):  # the values may hold any words
            return wanted, found.string.removeprefix("is ").removesuffix(known_end)
        values = found["wanted"], found["seen"]
        return tuple(each.removeprefix("builtins.") for each in values) if found["what"] == "type" else values
    if guard is not None and guard.shape is not None:
        return tuple(filter(None, (names((each.seen or each.why.removeprefix("with ")).replace(", ", " and ")),)))
    return tuple(filter(None, (wanted, each.seen)))


def stops(
    failed: data.RecompileData, known: Mapping[str, data.CompileData], made: data.CompileData | None = None
) -> str:
    """How to keep a guard from failing: torch's own hint, or else advice for this kind of guard. `made` is the compile
    that the failure led to."""
    if advice := hint(failed.why):
        return advice
    guard, of = guard_of(failed, known), known.get(failed.of)
    if of is not None and made is not None and of.title != made.title:
        return OTHERS
    found = fact(failed, guard)
    source = guard.source if guard is not None else ""
    if guard is not None and guard.shape is not None and of is not None:
        return _relation_advice(guard, failed, of, made)
    if found is not None and (size := _SIZE.search(found["what"] or "")) is not None:
        if {found["wanted"], found["seen"]} & {"0", "1"}:
            return ONE_AND_NONE
        if setting := _PARAMETER.search(failed.why):
            return f"set {setting[1]}: the sizes of parameters are fixed otherwise"
        named = f"{names(source)}.{size[0]}"
        if of is not None and (same := next(_one_with(named, of), None)) is not None:
            return duck(named, same, of)
        if of is not None and _is_unmarkable(source, of):
            return UNMARKED
        return (
            "mark the dimension as dynamic before the first call, "
            f"torch._dynamo.mark_dynamic({names(source) or 'tensor'}, {size['index']}), or compile with dynamic=True"
        )
    if advice := next((advice for word, advice in _ADVICE_BY_WORD.items() if word in subject(failed, guard)), ""):
        return advice
    if _LEAST.search(f"{failed.expression} {failed.why}"):
        return ONE_AND_NONE
    if guard is None:
        return _ADVICE["length"] if failed.expression.startswith("len(") else ""
    if "___stack" in source:
        return "the value is made where the graph breaks: a graph without that break has no such guard"
    if _KEY_OF.match(source):
        return _ADVICE["keys"]
    kind = guard.constant.type if guard.constant is not None else ""
    if kind == "NoneType" or found is not None and found["seen"] == "None":
        return "pass None always or never, or use one compiled function for each case"
    if guard.constant is not None and kind in ("int", "float"):
        name = names(source) or "the number"
        if made is not None and made.engine == "explorer" and not any(_fixes(each, source) for each in made.guards):
            return f"compile with dynamic=True; the new compile already takes other values of {name}"
        tensor = f" (torch.tensor({name}))" if source else ""
        return f"if {name} is only used in arithmetic, pass a tensor{tensor}: tensor values are not guarded"
    if kind == "bool" and (found is None or found["seen"] in ("True", "False")):
        return "no change is needed: it is compiled once for True and once for False, and both compiles are kept"
    if guard.constant is not None or _MEMBER.search(f"{guard.expression} {failed.seen}"):
        return FEW_VALUES
    return _ADVICE.get(guard.property, "")


def _relation_advice(
    guard: data.GuardData, failed: data.RecompileData, of: data.CompileData, made: data.CompileData | None
) -> str:
    """Of a relation between sizes, strides and numbers."""
    now = dict(_NOW.findall(names(failed.seen or failed.why)))
    sizes = [each for each in now if ".size(" in each]
    if any(now[each] in ("0", "1") for each in sizes) or not now and _LEAST.search(failed.expression):
        return ONE_AND_NONE
    if made is not None and made.raises:
        return f"no compile accepts such a value: compiling for it raised {made.error.partition(':')[0]}"
    if guard.shape is not None and guard.shape.op == "==":
        hints = {name: str(each.hint) for each in of.symbols for name in names(each.source).split(" and ")}
        moved = (each for each in sizes if now[each] != hints.get(each))
        if shared := next(((each, same) for each in moved for same in _one_with(each, of)), None):
            return duck(*shared, of)
        if ".stride(" in guard.source:
            return _ADVICE_BY_WORD["stride("]
    return WAYS


def duck(size: str, same: str, of: data.CompileData) -> str:
    """`size` failed, and is one with `same`."""
    source, _, index = size.removesuffix(")").rpartition(".size(")
    mark = "" if _is_unmarkable(source, of) else f", or torch._dynamo.mark_dynamic({source}, {index}) before it"
    return (
        f"{size} and {same} were equal when this was compiled, and so taken for one size (duck sizing): make the first "
        f"call with sizes that differ{mark}"
    )


def _one_with(size: str, of: data.CompileData) -> Iterator[str]:
    """Sizes that share the symbol of one, as they were equal: our record tells the first alone, and the others by
    guards that no line of the program asked for."""
    for symbol in of.symbols:
        one = set(names(symbol.source).split(" and "))
        ends = f" == {symbol.source}", *([f" == {symbol.hint}"] if symbol.status == "specialized" else ())
        added = (each for each in of.guards if each.shape is not None and each.span is None)
        one |= {names(each.source) for each in added if each.expression.endswith(ends)}
        if size in one:
            yield from sorted(each for each in one if each != size and ".size(" in each)


def _is_unmarkable(source: str, of: data.CompileData) -> bool:
    """Whether a tensor is a variable of a continuation, which is computed in the call itself."""
    return bool(of.continues or "resume_in_" in of.title) and names(source).isidentifier()


_VALUES = re.compile(r"(?<= is ).*|(?<= are ).*|\b(?:expected|actual|got)\b.*", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def subject(failed: data.RecompileData, guard: data.GuardData | None) -> str:
    """What a failed check is about, without values, which are the program's own: its strings may hold any words."""
    if (parts := fact(failed, guard)) is not None:
        return f"{parts['what'] or ''} is "
    return " ".join(_about(text) for text in (failed.words, failed.why))


def _about(text: str) -> str:
    return _VALUES.sub("", text) if ", expected " in text else _QUOTED.sub("", text)


def _fixes(guard: data.GuardData, source: str) -> bool:
    return guard.source == source and guard.property == "constant"


_SAME_ATTRIBUTES = "give the object the same attributes in every call: set them in __init__"

_ADVICE_BY_WORD = {
    "grad mode": "call always with or always without torch.no_grad(), or use one compiled function for each",
    "grad_mode": "call always with or always without torch.no_grad(), or use one compiled function for each",
    "autocast": "call always inside or always outside torch.autocast, or use one compiled function for each",
    "default dtype": "set the default dtype once, before the first call",
    "default_dtype": "set the default dtype once, before the first call",
    "number of threads": "call torch.set_num_threads once, before the first call",
    "num_threads": "call torch.set_num_threads once, before the first call",
    "default device": "set the default device once, before the first call",
    "deterministic mode": _STATE,
    "GLOBAL_STATE": _STATE,
    "torch function modes": "enter the same modes around every call; a default device (torch.set_default_device, "
    "with torch.device(...)) is one",
    "stride(": "use one memory layout: x = x.contiguous() before the call",
    "requires_grad is": "use the same requires_grad in every call, or one compiled function for each",
    "dtype is": "convert to one dtype before the call",
    "dim() is": "use one number of dimensions: unsqueeze or reshape before the call",
    "rank is": "use one number of dimensions: unsqueeze or reshape before the call",
    "device is": "move it to one device before the call, or use one compiled function for each",
    "is_inference()": "make it in the same mode for every call: a clone() made outside of "
    "torch.inference_mode is a normal tensor",
    "is_conj()": "pass the same kind of tensor in every call: x.resolve_conj() computes a lazy conjugate",
    "is_neg()": "pass the same kind of tensor in every call: x.resolve_neg() computes a lazy negative",
    "type is": "pass the same type in every call",
    "are the same object": "pass the same tensor twice in every call, or in none",
    "are the same tensor": "pass the same tensor twice in every call, or in none",
    "a dimension is marked": "mark dimensions before the first call, and on the tensors of each call",
    "of its own": _SAME_ATTRIBUTES,
    "dict_contains": "use dicts with the same keys, in the same order, in every call",
    "set.__contains__": "use sets with the same elements in every call",
}
_ADVICE = {
    "type": "pass the same type in every call",
    "length": "use containers of the same length in every call, or stack the tensors into one",
    "keys": "use dicts with the same keys, in the same order, in every call",
    "has": _SAME_ATTRIBUTES,
    "id": "pass the same object in every call: create it once, outside the loop",
    "code": "pass the same function in every call: define it once, outside the loop",
    "alias": "pass the same tensor twice in every call, or in none",
}
"""By the guarded property."""


def errors(compiles: Sequence[data.CompileData], failures: Iterable[data.ErrorData] = ()) -> tuple[data.ErrorData, ...]:
    """The errors of compiles, whole, and `failures` of calls, where no compile has them."""
    failed = [each for each in compiles if each.error]
    found = [error_of(each.error, each.id, each.title, each.raises, each.breaks, each.engine) for each in failed]
    events = (event.fields for each in compiles for event in each.events if event.fields.get("graph_raised"))
    found += [error_of(fields["graph_raised"], "", fields["frame"], False) for fields in events]
    raising = {each.engine for each in found if each.raises}
    found += [each for each in failures if each.engine not in raising and (each.engine or not raising)]
    return tuple(found)


def with_raised(
    errors: tuple[data.ErrorData, ...], text: str, place: data.SpanData | None
) -> tuple[data.ErrorData, ...]:
    """The errors, and what the program ended with, unless it is one that compiling raised. That a frame was left to
    Python for this is no error of its own."""
    raised = error_of(text, "", "", True)
    if not text or any(each.raises and each.kind == raised.kind and each.compile for each in errors):
        return errors
    left = (each for each in errors if each.raises or each.span is None or each.span != place)
    return (*left, msgspec.structs.replace(raised, span=place or raised.span))


def error_of(
    text: str, compile: str, title: str, raises: bool, breaks: Sequence[data.BreakData] = (), engine: str = ""
) -> data.ErrorData:
    """`breaks` are those of the compile: the place of an error that names none."""
    kind, _, message = text.partition(": ")
    place = user_line(text) or (breaks[-1].span if breaks else None)
    return data.ErrorData(compile, title, kind, message, place, raises, engine)


def user_line(text: str) -> data.SpanData | None:
    """The innermost line of the program that torch's text of an error names."""
    start = max((text.find(word) for word in _USER), default=-1)
    places = _RAISED_AT.findall(text) or (_PLACE.findall(text[start:]) if start >= 0 else [])
    own = [each for each in places if "/torch/" not in each[0]] or places
    return data.SpanData(own[-1][0], int(own[-1][1]), int(own[-1][1])) if own else None


_CONTINUATION = re.compile(r"^resume_in_(\w{1,200}?)_at_\d.*")
TOLD_BEFORE = "included in the time of another entry"
PROFILED = ", measured with torch's profiler"
NOT_MEASURED = "no call that it ran in was measured"


def eager(compiles: Iterable[data.CompileData], more: Iterable[data.EagerData] = ()) -> tuple[data.EagerData, ...]:
    """Code that ran outside graphs; `more` is code that no compile covers."""
    found: list[data.EagerData] = []
    compiles = tuple(compiles)
    titles = {each.title for each in compiles}
    whole = {each.id for each in compiles if each.engine == "explorer" and not each.recompiles}
    for compile in compiles:
        if compile.fallback is not None:
            code = compile.codes[0] if compile.codes else None
            place = data.SpanData(code.file, code.line, code.line) if code is not None else None
            why = str(compile.fallback)
            found.append(data.EagerData(compile.title, " ".join(why.split()), compile.id, place))
        else:
            what = "Python code at a graph break"
            ran = compile.breaks if not compile.raises else ()  # fullgraph does not allow the break
            found += [data.EagerData(what, b.why.title, compile.id, b.span, at_break=True) for b in ran]
            found += _never_compiled(compile, titles) if frame_of(compile.id) in whole else []
        for event in compile.events:
            if event.kind in ("FrameSkipped", "CallSkipped"):
                fields = event.fields
                what = fields.get("function") or fields.get("where") or ""
                found.append(data.EagerData(what, fields.get("why", ""), compile.id))
    found += more
    return tuple({(each.what, each.why, each.span): each for each in found}.values())


def _never_compiled(compile: data.CompileData, titles: Collection[str]) -> Iterator[data.EagerData]:
    """Continuations of our compile that no call got to; of a frame whose first compile is here, since those that others
    made may be compiled since then. Stock's are reported where it is watched."""
    for broke in compile.breaks:
        names = [name for name in broke.continuation.split(", ") if name]
        missing = [name for name in names if name not in titles]
        why = "no call took this side of the branch" if len(missing) < len(names) else "no call reached it"
        for name in missing:
            of = _CONTINUATION.sub(r"\1", name.rpartition(".")[2])
            what = f"{of} after line {broke.span.line}" if broke.span is not None else name
            yield data.EagerData(what, f"not compiled: {why}", compile.id, broke.span, reached=False)


def untimed(found: Collection[data.EagerData], why: str) -> tuple[data.EagerData, ...]:
    """With why those that were not timed were not, where that is not known yet."""
    measured = (each.measured or not each.reached for each in found)
    return tuple(
        each if known else msgspec.structs.replace(each, measured=why)
        for each, known in zip(found, measured, strict=True)
    )


def timed(
    found: Iterable[data.EagerData],
    compiles: Iterable[data.CompileData],
    outside: Sequence[OutsideGraphs],
    whys: Mapping[str, str] = MappingProxyType({}),
) -> tuple[data.EagerData, ...]:
    """With what each took in the calls that were measured, or why that is not known: `whys` say it by compile. What
    several stand for, as breaks of one graph, is reported with the first."""
    known = {each.id: each for each in compiles}
    reported: set[tuple[str, Place]] = set()

    def of(each: data.EagerData) -> Iterator[tuple[OutsideGraphs, Place]]:
        compile = known.get(each.compile)
        whole = compile is not None and compile.fallback is not None
        for call in outside:
            if compile is not None and compile.engine != call.engine:
                continue
            for place, share in call.shares.items():
                file, name, line, column = place
                if compile is not None and compile.codes and (whole or each.at_break):
                    if column and column not in (columns(compile.codes[0]) or (column,)):
                        continue  # another of that name in the line
                    at, what = (compile.codes[0].file, compile.codes[0].line), compile.codes[0].name
                else:
                    at, what = (each.span.file, each.span.line) if each.span else (file, line), each.what
                is_eager = each.at_break and not whole or not share.compiled
                if is_eager and (file, line) == at and name == what.rpartition(".")[2]:
                    yield call, place

    def measured(each: data.EagerData) -> data.EagerData:
        if not each.reached:
            return each
        all_of_it = list(of(each))
        some = [(call, place) for call, place in all_of_it if (call.engine, place) not in reported]
        if not some:
            of_it = known.get(each.compile)
            asked = [call.absent for call in outside if of_it is None or call.engine == of_it.engine]
            why = whys.get(each.compile) or (asked[0] if len(asked) == 1 else NOT_MEASURED * bool(asked))
            return msgspec.structs.replace(each, measured=TOLD_BEFORE if all_of_it else why)
        reported.update((call.engine, place) for call, place in some)
        shares = [call.shares[place] for call, place in some]
        calls = [call.name for call, _ in some]
        return msgspec.structs.replace(
            each, seconds=sum(share.seconds for share in shares), calls=sum(share.calls for share in shares),
            measured=" and ".join(dict.fromkeys(calls)) + PROFILED,
        )  # fmt: skip

    return tuple(map(measured, found)) if outside or whys else tuple(found)
