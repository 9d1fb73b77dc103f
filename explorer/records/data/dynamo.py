"""What torch writes about a compile of Dynamo, read: guards, reasons for a recompile, and the parts of the compile."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from explorer.core.reasons import reason
from explorer.ir import record as data
from explorer.ir.record import RecompileData

_NAMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"G\['__builtins_dict__\w*'\]\['(\w+)'\]", r"builtins.\1"),
        (r"\bG\['__import_(\w+)'\]", r"import<\1>"),
        (r"\bK\['globals of ([^'\]]+)'\]", r"the namespace of \1"),
        (r"\bG\('([\w.]+)'\)\['([^'\]]+)'\]", r"\1.\2"),
        (r"\b[LGK]\['([^'\]]+)'\]", r"\1"),
        (r"\b___stack(\d+)\b", r"intermediate value \1 at the graph break"),
        (r"\._(?:modules|parameters|buffers)\['(\d+)'\]", r"[\1]"),
        (r"\._(?:modules|parameters|buffers)\['([^'\]]+)'\]", r".\1"),
        (r"\blist\(dict\.keys\(([^()]*)\)\)\[(\d+)\]", r"key \2 of \1"),
        (r"\bdict\(type\(([^()]*)\)\.__dict__\)\['(\w+)'\]", r"type(\1).\2"),
        (r"\.(size|stride)\(\)\[(\d+)\]", r".\1(\2)"),
        (r"___from_numpy\(([^()]*)\)", r"\1"),
        (r"___(?:dict|odict|tuple_iterator)_(?:getitem|version)\(", "("),
    )
)
"""What stands for a place in torch's texts, and how a program calls it."""


def names(text: str) -> str:
    """The places in a text as the program calls them: "L['x']" is "x", "L['m']._modules['l']" is "m.l"."""
    for pattern, instead in _NAMES:
        text = pattern.sub(instead, text)
    return re.sub(r"import<(\w+)>", lambda found: found[1].replace("_dot_", "."), text)


_COLLECTIVE = re.compile(r"\b(?:_c10d_functional(?:_autograd)?|_dtensor)\.(?!wait_tensor)(\w+)")


def collective(target: str) -> str:
    """What a graph's call does among processes: "all_reduce"; "" where it is no collective."""
    found = _COLLECTIVE.search(target)
    return "" if found is None else found[1].rstrip("_")


TENSOR = re.compile(
    r"check_tensor\((?P<source>.*), (?P<type>[\w.]+), DispatchKeySet\((?P<keys>[^)]*)\), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>[^,]*), requires_grad=(?P<grad>\w+), size=(?P<size>\[[^]]*\]|None), "
    r"stride=(?P<stride>\[[^]]*\]|None)\)"
)
_KEY = r"'(?P<key>[^']*)'"


def device_of(found: re.Match[str]) -> str:
    keys = found["keys"]
    kind = "cpu" if "CPU" in keys else "cuda" if "CUDA" in keys else keys.partition(",")[0].lower()
    return kind if found["device"] == "None" else f"{kind}:{found['device']}"


def _tensor(found: re.Match[str]) -> str:
    dtype, kind = found["dtype"].removeprefix("torch."), found["type"].rpartition(".")[2]
    sizes, strides = (found[each].replace("None", "any") for each in ("size", "stride"))
    kind = {"Tensor": "tensor", "Parameter": "parameter"}.get(kind, kind)
    noun = f"{dtype} {kind}"
    noun = f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
    layout = "" if strides == "any" else f", strides {strides}"
    grad = "that requires grad" if found["grad"] == "True" else "that does not require grad"
    return f"{names(found['source'])} is {noun} of size {sizes}{layout} on {device_of(found)} {grad}"


_SAME = {
    "module": "the same module", "code": "the same code", "function": "the same function",
    "builtin_function_or_method": "the same function", "type": "the same class", "method": "the same method",
    "enum": "the same class", "built": "the same function", "bound": "the same method",
}  # fmt: skip


def _same(found: re.Match[str]) -> str:
    kind = found["kind"].removeprefix("builtins.")
    return f"{names(found['source'])} is {_SAME.get(kind, f'the same object ({kind})')}"


def _distinct(found: re.Match[str]) -> str:
    *others, last = names(found["sources"]).split(", ")
    return f"{', '.join(others)} and {last} are different tensors"


def _count(found: re.Match[str]) -> str:
    return f"{names(found['a'])} has {found['b']} element{'' if found['b'] == '1' else 's'}"


def _of_class(found: re.Match[str]) -> str:
    article = "an" if found["kind"][0].lower() in "aeiou" else "a"
    return f"{names(found['a'])} is {article} {found['kind']}"


_OWN_STATE = "grad mode, autocast, default dtype, deterministic algorithms and number of threads are as at capture"
_FORMS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (TENSOR.pattern, _tensor),
        (r"___check_type_id\((?P<a>.*), \d+\), type=<class '(?:builtins\.)?(?P<kind>[^']*)'>", _of_class),
        (r"___check_type_id\((?P<a>.*), \d+\)", "the class of {a} is as at capture"),
        (r"___check_obj_id\((?P<source>.*), \d+\), type=<class '(?P<kind>[^']*)'>", _same),
        (r"___check_obj_id\((?P<source>.*), \d+\), type=<(?P<kind>\w+).*>", _same),  # torch 2.11 shows the object
        (r"___check_obj_id\((?P<a>.*), \d+\)(?:, type=.*)?", "{a} is the same object"),
        (r"___check_global_state\(\).*", _OWN_STATE),
        (r"___check_torch_function_mode_stack\(\).*", "the stack of torch function modes is as at capture"),
        (r"___check_current_backend\(.*\)", "the backend of torch.compile is the same"),
        (r"utils_device\.CURRENT_DEVICE == None", "no default device is set"),
        (r"utils_device\.CURRENT_DEVICE == (?P<a>.*)", "the default device is {a}"),
        (r".*top_saved_tensors_hooks ids == None", "no torch.autograd.graph.saved_tensors_hooks are set"),
        (r".*top_saved_tensors_hooks ids == .*", "torch.autograd.graph.saved_tensors_hooks are those of the capture"),
        (r"torch\.autograd\.forward_ad\._current_level == -1", "no level of forward-mode differentiation is open"),
        (r"torch\.autograd\.forward_ad\._current_level == (?P<a>\S+)", "forward-mode differentiation is at level {a}"),
        (r"check_no_aliasing\((?P<sources>.*)\)", _distinct),
        (r"check_overlapping\(.*", "which of the tensors share memory is as at capture"),
        (r"hasattr\((?P<a>.*?), '_dynamo_\w+'\) == False.*",
         "no dimension of {a} is marked (torch._dynamo.mark_dynamic)"),
        (r".*\b_dynamo_\w+indices.*", "the same dimensions are marked (torch._dynamo.mark_dynamic)"),
        (rf"not ___dict_contains\({_KEY}, (?P<a>.*)\.__dict__\)", "{a} has no attribute '{key}' of its own"),
        (rf"___dict_contains\({_KEY}, (?P<a>.*)\.__dict__\)", "{a} has an attribute '{key}' of its own"),
        (r"not ___(?:dict|set)_contains\((?P<key>.*?), (?P<a>.*)\)", "{a} has no {key}"),
        (r"___(?:dict|set)_contains\((?P<key>.*?), (?P<a>.*)\)", "{a} has {key}"),
        (r"set\.__contains__\((?P<a>.*), (?P<key>.*)\)", "{a} has {key}"),
        (r"not set\.__contains__\((?P<a>.*), (?P<key>.*)\)", "{a} has no {key}"),
        (rf"not hasattr\((?P<a>.*), {_KEY}\)", "{a} has no attribute '{key}'"),
        (rf"hasattr\((?P<a>.*), {_KEY}\)", "{a} has an attribute '{key}'"),
        (r"___tuple_iterator_len\((?P<a>.*)\) == (?P<b>\d+)", "the iterator {a} has {b} elements left"),
        (r"___(?:normalize_)?range_iter\((?P<a>.*)\) == (?P<b>.*)", "the iterator {a} is at {b}"),
        (r"___dict_version\((?P<a>.*)\) == \d+", "{a} was not changed"),
        (r"\(type\([^()]*\) is \w+ and __\w+_isnan\((?P<a>.*)\)\)", "{a} is not a number (NaN)"),
        (r"__(?:math|numpy|complex)_isnan\((?P<a>.*)\)", "{a} is not a number (NaN)"),
        (r"list\((?:dict\.keys|\w+)\((?P<a>.*)\)\) == (?P<b>.*)", "the keys of {a} are {b}"),
        (r"len\((?P<a>.*)\) (?:==|!=) (?P<b>\d+)", _count),  # one that failed says so
        (r"not (?P<a>[^\s=<>]+)", "{a} is empty"),
        (r"(?P<a>.*)\.data_ptr\(\) == \d+", "{a} lies at the same address"),
        (r"\((?P<a>[^=<>]*)\) == (?P<b>[^<>]*)", "{a} equals {b}"),
        (r"(?P<a>[^=<>]*) == (?P<b>[^<>]*)", "{a} equals {b}"),
        (r"(?P<a>[^=<>]*) is not None", "{a} is not None"),
        (r"(?P<a>[^=<>]*) is (?P<b>None|True|False)", "{a} is {b}"),
        (r"(?P<a>\S+) is (?P<b>\S+)", "{a} and {b} are the same object"),
        (r"(?P<a>\S+) is not (?P<b>\S+)", "{a} and {b} are not the same object"),
    )
)  # fmt: skip


_SCALARS = {
    "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Half": "float16",
    "Float": "float32", "Double": "float64", "ComplexHalf": "complex32", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip
"""Dtypes by the names that torch's C++ has for them, where these are not the same without capitals."""


def _dtypes(found: re.Match[str]) -> str:
    seen, wanted = (_SCALARS.get(found[which], found[which].lower()) for which in ("seen", "wanted"))
    return f"{names(found['a'])}.dtype is {seen}, expected {wanted}"


def _keys(found: re.Match[str]) -> str:
    """What the dispatch keys say of the tensor: where it is, and what kind of view or tensor."""
    seen, wanted = (tuple(found[which].split(", ")) for which in ("seen", "wanted"))
    tensor = names(found["a"])
    if seen[0] != wanted[0]:
        return f"{tensor}.device is {seen[0].lower()}, expected {wanted[0].lower()}"
    differ = {key.rstrip(".") for key in (*seen, *wanted) if (key in seen) != (key in wanted)}
    for key, method in _METHODS.items():
        if any(each.startswith(key) for each in differ):
            held = any(each.startswith(key) for each in seen) is not (method == "is_inference")
            return f"{tensor}.{method}() is {held}, expected {not held}"
    return f"{tensor} dispatch keys are with{'' if differ & set(seen) else 'out'} {' and '.join(sorted(differ))}"


_METHODS = {
    "ADInplaceOrView": "is_inference", "Autograd": "is_inference", "Conjugate": "is_conj", "Negative": "is_neg",
    "Sparse": "is_sparse",
}  # fmt: skip
"""What asks for a tensor's dispatch keys; an inference tensor has none of autograd's."""


def _duplicates(found: re.Match[str]) -> str:
    *others, last = re.findall(r'[^", ][^",]*', names(found["sources"]))
    return f"{', '.join(others)} and {last} are the same tensor"


def _state(found: re.Match[str]) -> str:
    parts = [part.replace("_", " ") for part in found["parts"].split()]
    return f"{' and '.join(parts)} changed"


def _flag(found: re.Match[str]) -> str:
    wanted = found["wanted"] in ("1", "True")
    return f"{names(found['a'])}.requires_grad is {not wanted}, expected {wanted}"


_OF = r"tensor '(?P<a>[^\n]{1,400}?)' "
_FAILED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (_OF + r"(?P<what>size|stride) mismatch at index (?P<at>\d{1,9})\. expected (?P<wanted>\d{1,20}), "
         r"actual (?P<seen>\d{1,20}).*", "{a}.{what}({at}) is {seen}, expected {wanted}"),
        (_OF + r"rank mismatch\. expected (?P<wanted>\d{1,9}), actual (?P<seen>\d{1,9}).*",
         "{a}.dim() is {seen}, expected {wanted}"),
        (_OF + r"dtype mismatch\. expected (?P<wanted>\w{1,40}), actual (?P<seen>\w{1,40}).*", _dtypes),
        (_OF + r"requires_grad mismatch\. expected requires_grad=(?P<wanted>\w{1,5}).*", _flag),
        (_OF + r"dispatch key set mismatch\. expected DispatchKeySet\((?P<wanted>[^)]{1,2000})\), "
         r"actual DispatchKeySet\((?P<seen>[^)]{1,2000})\).*", _keys),
        (_OF + r"Tensor device index mismatch\. Expected device index to be (?P<wanted>\d{1,9}), "
         r"got (?P<seen>\d{1,9}).*", "{a}.device is number {seen}, expected number {wanted}"),
        (r"expected type of '(?P<a>[^\n]{1,400}?)' to be a tensor type, ' "
         r"but found <class '(?P<seen>[^'\n]{1,200})'>.*", "{a} is of type {seen}, expected torch.Tensor"),
        (r"GLOBAL_STATE changed: (?P<parts>[^\n]{1,400})", _state),
        (r'Duplicate tensors? found: \[(?P<sources>[^\]\n]{1,400})\].*', _duplicates),
        (r"len\((?P<a>.*)\) != (?P<b>\d+)", "the length of {a} is not {b}"),
        (r"_has_dynamo_dim_marking is present on runtime tensor but was absent .*",
         "a dimension is marked (torch._dynamo.mark_dynamic), and was not at capture"),
    )
)  # fmt: skip
"""How torch tells that a check failed, without or with the values."""


def failure_in_words(text: str) -> str:
    """How a check failed, with its values where torch's text has them: "x.size(0) is 5, expected 4". Empty where the
    text is that of the check."""
    for pattern, words in _FAILED:
        if (found := pattern.fullmatch(_without_hint(text))) is not None:
            return _formatted(words, found)
    return ""


def in_words(expression: str) -> str:
    """What a check asks; of a form that is not known, its text with the program's names."""
    expression = _without_hint(expression)
    for pattern, words in _FORMS:
        if (found := pattern.fullmatch(expression)) is not None:
            return _formatted(words, found)
    return names(expression)


def _formatted(form: str | Callable[[re.Match[str]], str], found: re.Match[str]) -> str:
    if not isinstance(form, str):
        return form(found)
    return form.format(**{name: names(part).strip() for name, part in found.groupdict().items()})


def _without_hint(expression: str) -> str:
    """torch writes its advice after the comment, and at the end of a check that has none."""
    return expression.partition(" (HINT: ")[0].strip()


_CLOSED_OVER = re.compile(r'\Aguard on "\w{1,200}"[^, ]{0,400}(?:, )?')


def hint(comment: str) -> str:
    """torch's advice at the end of a check's comment. Of a check of a type it is the type alone, and of what a function
    closes over it begins with the variable."""
    found = " ".join(comment.partition("(HINT: ")[2].split()).removesuffix(")")
    return "" if found.startswith("type ") else _CLOSED_OVER.sub("", found)


NOTHING = reason(
    "stock.nothing",
    "there is nothing to compile",
    "The code only passes values on, so Dynamo has no graph to make of it, whatever the arguments.",
)
OF_TORCH = reason(
    "stock.of_torch",
    "a function of torch that needs no graph",
    "Dynamo skipped a function of torch that only calls others or manages state. What it calls may still be compiled.",
)
HARMLESS = (NOTHING, OF_TORCH)
"""Why a frame runs eagerly that loses nothing by it."""

AMBIENT = frozenset(
    "GLOBAL_STATE TORCH_FUNCTION_MODE_STACK DEFAULT_DEVICE DUAL_LEVEL_MATCH DIMENSION_DYNAMIC_MARKING_GUARD".split()
)
_LIBRARY = re.compile(r"(?:[^\[]*\()?G\['(?:torch|__import_torch|__builtins_dict__)")
_INSIDE_MODULE = re.compile(
    r".*\._(?:modules|parameters|buffers)\b(?!\[)"
    r"|.*\b__dict__\)? *|.*\._(?:forward|backward)(?:_pre)?_hooks\b.*", re.DOTALL
)  # fmt: skip


def is_torchs_own(kind: str, source: str, expression: str) -> bool:
    """Whether a check is about torch, Python or how torch keeps a module, and not about a value of the program. `kind`
    is the name of torch's class of checks."""
    if kind in AMBIENT or _LIBRARY.match(source or expression):
        return True
    if "saved_tensors_hooks" in expression or re.search(r"\b_dynamo_\w+", expression):
        return True
    if kind == "ID_MATCH" and source.startswith("G[") and re.search(r"type=<(?:class ')?module\b", expression):
        return True
    if kind == "LAMBDA_GUARD" and "'__import_" in expression:
        return True
    return kind in ("TYPE_MATCH", "DICT_CONTAINS") and bool(_INSIDE_MODULE.fullmatch(source))


FAILED = "guard failed: "
"""Before the words of a check that failed with a value that is not known."""
_ID = re.compile(r"(!?\d+(?:/\d+){0,2}): ")
_STACK = "\nUser stack trace:"
_TENSOR = re.compile(r"(?:tensor|expected type of) '(.+?)' [^']*(?:mismatch|to be a tensor)")
_LOCAL = re.compile(r"L\[['\"]([^'\"]*)['\"]\]")


class GuardKey(Protocol):
    """What a guard is known by: as data, or as torch has it. `property` is our word or torch's ("TENSOR_MATCH")."""

    @property
    def id(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def expression(self) -> str: ...

    @property
    def property(self) -> str: ...


def recompiled(
    reason: str,
    earlier: Mapping[str, tuple[str, Sequence[GuardKey]]],
    value_of: Callable[[GuardKey], str] = lambda guard: "",
) -> RecompileData:
    """A reason such as "3/0: len(xs) == 2  # for x in xs:". `earlier` gives, by what torch calls them, the id and the
    guards of the frame's compiles so far; `value_of` what a guard asked about is at this call: a value, the name of a
    type, a length."""
    found = _ID.match(reason)
    torch_id, text = (found[1], reason[found.end() :]) if found else ("", reason)
    text = text.partition(_STACK)[0]
    id, guards = earlier.get(torch_id, (torch_id, ()))
    expression = text.partition("  # ")[0].strip()
    guard = failed(expression, guards) or _counted(expression)
    why = " ".join(text.split())
    if guard is None:
        words = failure_in_words(expression) or FAILED + in_words(expression)
        return RecompileData(id, "", expression, why, words=words)
    seen = value_of(guard)
    with_it = f", with {names(seen)}" if seen and not guard.source else ""
    known = expected_but_got(guard, seen) or failure_in_words(expression)
    words = known or FAILED + in_words(guard.expression) + with_it
    return RecompileData(id, guard.id, guard.expression, why, seen, words)


_OTHER_LENGTH = re.compile(r"len\((?P<of>.*)\) != (?P<wanted>\d{1,20})", re.DOTALL)
_LENGTH = ("length ", re.compile(r"\Alen\((?P<of>.*)\) == (?P<wanted>\d{1,20})|\Anot (?P<empty>.*)", re.DOTALL))
_VALUE = ("", re.compile(r"\A(?P<of>.*?) (?:==|is) (?P<wanted>.*)", re.DOTALL))
_WANTED: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "LENGTH_CHECK": _LENGTH,
    "DICT_LENGTH": _LENGTH,
    "TYPE_MATCH": (
        "type ",
        re.compile(r"\A___check_type_id\((?P<of>.*), \d+\), type=<class '(?:builtins\.)?(?P<wanted>[^']*)'>", re.S),
    ),
    **dict.fromkeys(("EQUALS_MATCH", "TRUE_MATCH", "FALSE_MATCH", "NONE_MATCH"), _VALUE),
}
"""What a check of one value is about, and expects, by the name of torch's class of checks."""


@dataclass(frozen=True)
class KeyCount:
    """A check of how many keys a dictionary has: torch makes it to look at these, and has no guard of its own."""

    source: str
    expression: str
    id: str = ""
    property: str = "DICT_LENGTH"


def _counted(expression: str) -> KeyCount | None:
    found = _OTHER_LENGTH.fullmatch(expression)
    return None if found is None else KeyCount(found["of"], f"len({found['of']}) == {found['wanted']}")


def expected_but_got(guard: GuardKey, seen: str) -> str:
    """What a check of one value expected beside what it was given; empty where one of them is not known."""
    what, pattern = _WANTED.get(guard.property, _VALUE)
    found = pattern.fullmatch(_without_hint(guard.expression)) if seen and guard.property in _WANTED else None
    if found is None:
        return ""
    wanted = found["wanted"] or "0"
    seen = f"another class {seen}" if seen == wanted else seen
    return f"{names(guard.source)} {what}is {seen}, expected {wanted}"


def failed(expression: str, guards: Sequence[GuardKey]) -> GuardKey | None:
    """The guard that a reason speaks of: by its text, in which torch writes locals without L['...'], or for "tensor 'x'
    size mismatch ..." by the tensor."""
    plain = {_without_locals(expression)}
    if (found := _OTHER_LENGTH.fullmatch(expression)) is not None:
        of = _without_locals(found["of"])
        plain |= {f"len({of}) == {found['wanted']}", f"not {of}" if found["wanted"] == "0" else ""}
    same = next((guard for guard in guards if _without_locals(guard.expression) in plain), None)
    tensor = _TENSOR.match(expression)
    if same is not None or tensor is None:
        return same
    name = _without_locals(tensor[1])
    matches = (guard for guard in guards if guard.property in ("tensor", "TENSOR_MATCH"))
    return next((guard for guard in matches if _without_locals(guard.source) == name), None)


def _without_locals(expression: str) -> str:
    return _LOCAL.sub(r"\1", expression).strip()


@dataclass
class CollectedCompile:
    """What is known of one compile so far."""

    id: str
    title: str
    stages: list[data.StageData] = field(default_factory=list)
    guards: list[data.GuardData] = field(default_factory=list)
    breaks: list[data.BreakData] = field(default_factory=list)
    symbols: list[data.SymbolData] = field(default_factory=list)
    inputs: list[data.InputData] = field(default_factory=list)
    recompiles: list[data.RecompileData] = field(default_factory=list)
    events: list[data.EventData] = field(default_factory=list)
    error: str = ""
    raises: bool = False

    def whole(self, started: float, seconds: float, **more: Any) -> data.CompileData:
        """The compile as data; `more` are fields that only some sources have."""
        return data.CompileData(
            self.id,
            self.title,
            started,
            seconds,
            stages=tuple(self.stages),
            guards=tuple(self.guards),
            breaks=tuple(self.breaks),
            symbols=tuple(self.symbols),
            inputs=tuple(self.inputs),
            recompiles=tuple(self.recompiles),
            events=tuple(self.events),
            error=self.error,
            raises=self.raises,
            engine="stock",
            **more,
        )
