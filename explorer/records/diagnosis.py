"""Diagnosis from the compiles of a record: guards that failed, errors, and code that ran eagerly."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from explorer.core.calls import OutsideGraphs, Place
from explorer.ir.dynamo import names
from explorer.ir.record import (
    CompileData,
    EagerData,
    ErrorData,
    FailedGuardData,
    GuardData,
    RecompileData,
    SpanData,
)

_PLACE = re.compile(r'File "([^"\n]{1,4096})", line (\d{1,9})')
_USER = ("from user code:", "User code traceback:", "User stack:", "Framework stack")
_MISMATCH = re.compile(
    r"(?P<what>\w{1,40}) mismatch(?: at index (?P<index>\d{1,9}))?\. expected (?P<wanted>[^,]{1,200}), "
    r"actual (?P<seen>.{1,200})"
)
_OURS = re.compile(r"(?:(?P<what>[\w()]{1,80}) )?is (?P<seen>.{1,200}), expected (?P<wanted>.{1,200})")

ONE_AND_NONE = "sizes 0 and 1 are always specialised; pad to avoid them, or use one compiled function for each case"
_LEAST = re.compile(r"\b2 <= \S{1,200}size\(|size\(\S{1,20} >= 2\b")
"""A dynamic size that is 0 or 1."""
_FACT = re.compile(r"[\w()]{1,80} is [^,]{1,200}, expected [^,]{1,200}")
"""Of a tensor: no value of it has a comma."""
_SIZE = re.compile(r"size\((?P<index>\d{1,9})\) is (?P<seen>.{1,200}), expected (?P<wanted>.{1,200})")


def failed_guards(compiles: Iterable[CompileData]) -> tuple[FailedGuardData, ...]:
    """The guards that caused recompiles, most frequent first."""
    known = {compile.id: compile for compile in compiles}
    found: dict[tuple[str, str, str], list[tuple[CompileData, RecompileData]]] = {}
    for compile in known.values():
        for each in itertools.chain.from_iterable(by_fact(failed, known) for failed in compile.recompiles):
            found.setdefault((compile.title, _checked(each, known), compile.engine), []).append((compile, each))
    made = [_failed(title, failures, known) for (title, _, _), failures in found.items()]
    return tuple(sorted(made, key=lambda each: -each.times))


def by_fact(each: RecompileData, known: Mapping[str, CompileData]) -> tuple[RecompileData, ...]:
    """A failure of a tensor guard may be several facts, such as dtype and requires_grad: one failure for each."""
    guard = guard_of(each, known)
    facts = _FACT.findall(each.why) if guard is not None and guard.tensor is not None else ()
    return tuple(msgspec.structs.replace(each, why=fact) for fact in facts) or (each,)


def guard_of(each: RecompileData, known: Mapping[str, CompileData]) -> GuardData | None:
    guards = known[each.of].guards if each.of in known else ()
    return next((guard for guard in guards if guard.id == each.guard), None)


def _checked(each: RecompileData, known: Mapping[str, CompileData]) -> str:
    """The check without the values that differ from one compile to the next: what counts as the same guard."""
    guard, told = guard_of(each, known), _OURS.fullmatch(each.why)
    if guard is not None and told is not None:
        return f"{guard.source} {told['what'] or ''}"
    said = each.why if "mismatch" in each.why else each.expression
    return re.sub(r"(==|expected|actual) [^,)]*", r"\1", said.partition("  #")[0])


def _failed(
    title: str, failures: list[tuple[CompileData, RecompileData]], known: dict[str, CompileData]
) -> FailedGuardData:
    last = failures[-1][1]
    guard = guard_of(last, known)
    causes = tuple(dict.fromkeys(compile.id for compile, _ in failures))
    values = tuple(dict.fromkeys(value for compile, each in failures for value in guarded_values(each, known)))
    span = guard.span if guard is not None else None
    shown = last.why if "mismatch" in last.why else last.expression
    words = last.words or (guard.words if guard is not None and "mismatch" not in last.why else "")
    told = _OURS.fullmatch(last.why)
    one_value = told is not None or (guard is not None and guard.constant is not None and "mismatch" not in last.why)
    what = told["what"] or "" if told is not None else ""
    if guard is not None and one_value and (what or len(values) > 2):
        words = _asked(names(guard.source), what)
    made = known.get(failures[-1][0].id)
    return FailedGuardData(
        title, shown, len(causes), values, stops(guard, last, made), last.of, last.guard, causes, span, words
    )


def _asked(source: str, what: str) -> str:
    """What a guard asks about `source`, without the values."""
    if what in ("", "length", "type"):
        return f"the {what or 'value'} of {source}"
    return f"{source}.{what}"


def guarded_values(each: RecompileData, known: Mapping[str, CompileData]) -> tuple[str, ...]:
    """(expected, actual) values of the guard."""
    if (told := _MISMATCH.search(each.why) or _OURS.fullmatch(each.why)) is not None:
        return told["wanted"].rstrip("."), told["seen"].rstrip(".")
    guard = guard_of(each, known)
    wanted = guard.constant.text if guard is not None and guard.constant is not None else ""
    return tuple(filter(None, (wanted, each.seen)))


_OF_TENSORS = {"size": "size({})", "stride": "stride({})", "rank": "dim()", "dtype": "dtype", "device": "device"}
"""What stock's check of a tensor calls a property of it, and how a program asks for that."""


def changed(each: RecompileData, known: Mapping[str, CompileData]) -> str:
    """What stock's check expected and what it was given, as ours says it; "" where that is not known."""
    guard, told, values = guard_of(each, known), _MISMATCH.search(each.why), guarded_values(each, known)
    if guard is None or not each.words or len(values) != 2:
        return ""
    expected, seen = values
    if told is not None and (asked := _OF_TENSORS.get(told["what"])):
        return f"{names(guard.source)}.{asked.format(told['index'])} is {seen}, expected {expected}"
    return f"{names(guard.source)} is {seen}, expected {expected}" if guard.property == "constant" else ""


def stops(guard: GuardData | None, failed: RecompileData, made: CompileData | None = None) -> str:
    """How to keep a guard from failing: torch's own hint, or else advice for this kind of guard. `made` is the compile
    that the failure led to."""
    _, found, hint = failed.why.partition("HINT: ")
    if found:
        return hint.strip().removesuffix(")").strip()
    told = _MISMATCH.search(failed.why)
    source = guard.source if guard is not None else ""
    size = _SIZE.fullmatch(failed.why)
    resized = size if told is None or told["what"] != "size" or not told["index"] else told
    if resized is not None:
        if {resized["wanted"], resized["seen"]} & {"0", "1"}:
            return ONE_AND_NONE
        tensor = names(source) or "tensor"
        return (
            "mark the dimension as dynamic before the first call, "
            f"torch._dynamo.mark_dynamic({tensor}, {resized['index']}), or compile with dynamic=True"
        )
    for word, advice in _ADVICE_BY_WORD.items():
        if word in failed.why:
            return advice
    if _LEAST.search(failed.why or failed.expression):
        return ONE_AND_NONE
    if guard is None:
        return ""
    if guard.property == "constant" and guard.constant is not None and guard.constant.type in ("int", "float"):
        name = names(source) or "the number"
        if made is not None and made.engine == "explorer" and not any(_fixes(each, source) for each in made.guards):
            return f"compile with dynamic=True; the new compile already takes other values of {name}"
        tensor = f"torch.tensor({guard.constant.text})"
        return f"if {name} is only used in arithmetic, pass a tensor ({tensor}): tensor values are not guarded"
    if guard.constant is not None and guard.constant.type == "NoneType":
        return "pass None always or never, or use one compiled function for each case"
    return _ADVICE.get(guard.property, "")


def _fixes(guard: GuardData, source: str) -> bool:
    return guard.source == source and guard.property == "constant"


_ADVICE_BY_WORD = {
    "stride mismatch": "use one memory layout: x = x.contiguous() before the call",
    "stride(": "use one memory layout: x = x.contiguous() before the call",
    "dtype is": "convert to one dtype before the call",
    "requires_grad": "use the same requires_grad in every call, or one compiled function for each",
    "dtype mismatch": "convert to one dtype before the call",
    "rank mismatch": "use one number of dimensions: unsqueeze or reshape before the call",
    "dispatch key set mismatch": "use the same mode (inference mode, autocast, device) in every call",
    "grad_mode": "call always with or always without torch.no_grad(), or use one compiled function for each",
    "GLOBAL_STATE changed": "keep torch's global state (autocast, deterministic, threads) the same for all calls",
}
_ADVICE = {
    "constant": "pass the same value in every call; pass a value that changes as a tensor",
    "type": "pass the same type in every call",
    "length": "pass lists and tuples of the same length, or stack the tensors into one",
    "keys": "pass dicts with the same keys in every call",
    "has": "give the object the same attributes in every call: set them in __init__",
    "id": "pass the same object in every call: create it once, outside the loop",
    "code": "pass the same function in every call: define it once, outside the loop",
    "alias": "pass the same tensor twice in every call, or in none",
}
"""By the guarded property."""


def errors(compiles: Iterable[CompileData], failure: str = "") -> tuple[ErrorData, ...]:
    """The errors of compiles, whole; `failure` is that of the call, where no compile has it."""
    found = [error_of(each.error, each.id, each.title, each.raises) for each in compiles if each.error]
    if failure and not any(each.raises for each in found):
        found.append(error_of(failure, "", "", True))
    return tuple(found)


def error_of(text: str, compile: str, title: str, raises: bool) -> ErrorData:
    kind, _, message = text.partition(": ")
    return ErrorData(compile, title, kind, message, user_line(text), raises)


def user_line(text: str) -> SpanData | None:
    """The innermost line of the program that torch's text of an error names."""
    told = max((text.find(word) for word in _USER), default=-1)
    places = _PLACE.findall(text[told:]) if told >= 0 else []
    own = [each for each in places if "/torch/" not in each[0]] or places
    return SpanData(own[-1][0], int(own[-1][1]), int(own[-1][1])) if own else None


AT_BREAK = "the Python at a graph break"


def eager(compiles: Iterable[CompileData], more: Iterable[EagerData] = ()) -> tuple[EagerData, ...]:
    """Code that ran outside graphs; `more` is code that no compile covers."""
    found: list[EagerData] = []
    for compile in compiles:
        if compile.fallback is not None:
            code = compile.codes[0] if compile.codes else None
            place = SpanData(code.file, code.line, code.line) if code is not None else None
            why = str(compile.fallback)
            found.append(EagerData(compile.title, " ".join(why.split()), compile.id, place))
        else:
            found += [EagerData(AT_BREAK, b.why.title, compile.id, b.span) for b in compile.breaks]
        for event in compile.events:
            if event.kind in ("FrameSkipped", "CallSkipped"):
                fields = event.fields
                what = fields.get("function") or fields.get("where") or ""
                found.append(EagerData(what, fields.get("why", ""), compile.id))
    found += more
    return tuple({(each.what, each.why, each.span): each for each in found}.values())


def timed(
    found: Iterable[EagerData], compiles: Iterable[CompileData], outside: Sequence[OutsideGraphs]
) -> tuple[EagerData, ...]:
    """With what each took in the calls that were measured. What several stand for, as breaks of one graph, is told with
    the first."""
    known = {each.id: each for each in compiles}
    told: set[tuple[str, Place]] = set()

    def of(each: EagerData) -> Iterator[tuple[OutsideGraphs, Place]]:
        compile = known.get(each.compile)
        whole = compile is not None and compile.fallback is not None
        for call in outside:
            if compile is not None and compile.engine != call.engine:
                continue
            for place, share in call.shares.items():
                file, name, line = place
                if compile is not None and compile.codes and (whole or each.what == AT_BREAK):
                    at, what = (compile.codes[0].file, compile.codes[0].line), compile.codes[0].name
                else:
                    at, what = (each.span.file, each.span.line) if each.span else (file, line), each.what
                is_eager = each.what == AT_BREAK and not whole or not share.compiled
                if is_eager and (file, line) == at and name == what.rpartition(".")[2]:
                    yield call, place

    def measured(each: EagerData) -> EagerData:
        some = [(call, place) for call, place in of(each) if (call.engine, place) not in told]
        if not some:
            return each
        told.update((call.engine, place) for call, place in some)
        shares = [call.shares[place] for call, place in some]
        calls = [f"{f'call {call.number}' if call.number else 'a call'} of {call.function}" for call, _ in some]
        return msgspec.structs.replace(
            each, seconds=sum(share.seconds for share in shares), calls=sum(share.calls for share in shares),
            measured=" and ".join(dict.fromkeys(calls)),
        )  # fmt: skip

    return tuple(map(measured, found)) if outside else tuple(found)
