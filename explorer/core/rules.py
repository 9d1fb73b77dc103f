"""Rule tables: one key, one rule, filled by a decorator that refuses mistakes; and a person's own rules over them."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from explorer.core.origin import Origins, origins
from explorer.core.reasons import Unsupported, Why, reason
from explorer.core.recorder import note

K = TypeVar("K")
F = TypeVar("F", bound=Callable[..., object])

YOUR_RULE = reason(
    "rules.yours_failed",
    "your rule failed",
    "A rule given to explorer.workbench raised an error, or what it made does not pass the check after its stage. The "
    "program runs eagerly instead, so its results are right.",
    "The detail names the rule and the error. Correct the rule, or leave it out of the workbench.",
)


class RuleTable(Mapping[K, F], Generic[K, F]):
    """A read-only mapping from key to rule. `known` says which keys may be registered (None: any). Where a person's own
    rule is in force for a key, it is found in the place of the built-in one.

    Example:
        LOWERINGS = RuleTable("lowering")
        @LOWERINGS.rule(aten.add.Tensor, aten.add.Scalar)
        def lower_add(...): ...
    """

    def __init__(self, name: str, known: Callable[[K], bool] | None = None) -> None:
        self.name = name
        self._known = known
        self._rules: dict[K, F] = {}

    def rule(self, *keys: K) -> Callable[[F], F]:
        """Register the decorated function for `keys`. Raises ValueError for a duplicate or an unknown key."""

        def register(function: F) -> F:
            for key in keys:
                if key in self._rules:
                    raise ValueError(f"{self.name} rule for {key} is already {self._rules[key].__name__}")
                self.check(key)
                self._rules[key] = function
            return function

        return register

    def check(self, key: K) -> None:
        """Raises ValueError for a key that the table does not know."""
        if self._known is not None and not self._known(key):
            raise ValueError(f"{self.name} has no key {key}")

    def now(self) -> Mapping[K, F]:
        """The rules that are in force, for many look-ups while no others come into force."""
        own = {key: rule for (name, key), rule in _in_force.get().table.items() if name == self.name}
        return {**self._rules, **cast("dict[K, F]", own)} if own else self._rules

    def own(self, key: K) -> OwnRule | None:
        """The person's own rule that is in force for `key`."""
        table = _in_force.get().table
        return table.get((self.name, key)) if table else None

    def credit(self, key: K) -> str:
        """What a record says of a decision by `key`: that it is by the person's own rule, or nothing."""
        own = self.own(key)
        return with_your(own.name) if own is not None else ""

    def __getitem__(self, key: K) -> F:
        own: Any = self.own(key)
        return self._rules[key] if own is None else own

    def __contains__(self, key: object) -> bool:  # Mapping's raises and catches a KeyError where there is none
        return key in self._rules or self.own(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        return iter({**self._rules, **{key: None for name, key in _in_force.get().table if name == self.name}})

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass(frozen=True, slots=True)
class RuleUsed:
    """An event: a person's own rule was asked about the elements `where`."""

    rule: str
    where: Origins


ENDLESS = "it recurses without end: it uses the operation that it is a rule for"


@dataclass(frozen=True, slots=True)
class OwnRule:
    """A person's rule, called as the built-in one is. What it makes says so; what it raises names it."""

    name: str
    function: Callable[..., Any]

    def __call__(self, *args: object, **kwargs: object) -> Any:
        note(RuleUsed, self.name, origins())
        try:
            with using(self.name):
                return self.function(*args, **kwargs)
        except Exception as error:
            if type(error).__module__ != "builtins":  # the compiler's own way to say no, or the program's error
                raise
            where = f" at {', '.join(origins())}" if origins() else ""
            message = ENDLESS if isinstance(error, RecursionError) else str(error)
            raise Unsupported(Why(YOUR_RULE, f"{self.name}{where}: {type(error).__name__}: {message}")) from error


@dataclass(frozen=True)
class Rules:
    """A person's own rules, by name of table and key. Two are equal where the code of their rules is."""

    table: Mapping[tuple[str, Any], OwnRule] = field(default_factory=dict, compare=False)
    key: str = ""
    met: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of(given: Mapping[tuple[str, object], Callable[..., object]]) -> Rules:
        own: dict[tuple[str, Any], OwnRule] = {}
        met: list[Any] = []
        for (table, key), function in given.items():
            if not callable(function):
                raise TypeError(f"the rule {table} {key} is a {type(function).__name__}, which cannot be called")
            name = getattr(function, "__name__", type(function).__name__)
            own[table, key] = OwnRule(f"{table} {key} ({name})" if key != name else f"{table} {key}", function)
        texts = [f"{table} {key} {code_of(function, met)}" for (table, key), function in given.items()]
        return Rules(own, hashlib.sha256("\n".join(texts).encode()).hexdigest(), tuple(met)) if own else Rules()

    def over(self, others: Rules) -> Rules:
        """These rules, and `others` where these have none."""
        if not self.table or not others.table:
            return self if self.table else others
        if self.key.startswith(others.key):
            return self
        return Rules({**others.table, **self.table}, f"{others.key} {self.key}", (*others.met, *self.met))

    def __bool__(self) -> bool:
        return bool(self.table)

    def __str__(self) -> str:
        return ", ".join(rule.name for rule in self.table.values()) or "built in"


_NONE = Rules()
_in_force: ContextVar[Rules] = ContextVar("rules", default=_NONE)
_using: ContextVar[str] = ContextVar("rule", default="")


def rules_in_force() -> Rules:
    """A person's own rules, here and now."""
    return _in_force.get()


def rule_in_use() -> str:
    """The name of the person's own rule that is running; "" where none is."""
    return _using.get()


@contextmanager
def using(rule: str) -> Iterator[None]:
    """What is made inside the block says that this rule made it."""
    token = _using.set(rule)
    try:
        yield
    finally:
        _using.reset(token)


def with_your(rule: str) -> str:
    return f"with your rule: {rule}"


@contextmanager
def in_force(rules: Rules) -> Iterator[None]:
    """Inside the block, in this thread and context, these rules and no others stand over the built-in ones."""
    token = _in_force.set(rules)
    try:
        yield
    finally:
        _in_force.reset(token)


def code_of(function: object, met: list[object]) -> str:
    """What a function does, as text that is the same for the same code: its bytecode, and what it reaches. `met` keeps
    the objects alive whose ids are in the text."""
    if isinstance(function, types.MethodType):
        return f"{code_of(function.__func__, met)} of {_value(function.__self__, met)}"
    if not isinstance(function, types.FunctionType):
        return _value(function, met)
    met.append(function)
    code = function.__code__
    cells = [_value(cell.cell_contents, met) if is_filled(cell) else "" for cell in function.__closure__ or ()]
    reached = [_value(function.__globals__.get(name), met) for name in _names(code)]
    return f"{_code(code)} {cells} {reached} {_value((function.__defaults__, function.__kwdefaults__), met)}"


def is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _names(code: types.CodeType) -> tuple[str, ...]:
    """The names that a code object and those inside of it look up."""
    inner = (name for each in code.co_consts if isinstance(each, types.CodeType) for name in _names(each))
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def _code(code: types.CodeType) -> str:
    consts = [_code(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {consts} {code.co_names} {code.co_varnames}"


def _value(value: object, met: list[object]) -> str:
    """A value as text: plain data and a person's functions by what they are, all else by identity."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    for at, each in enumerate(met):
        if each is value:
            return f"met {at}"
    if isinstance(value, types.FunctionType) and not str(value.__module__).startswith(("torch", "explorer")):
        return code_of(value, met)
    met.append(value)
    if isinstance(value, (tuple, list, frozenset, set)):
        return f"{type(value).__name__} {[_value(each, met) for each in value]}"
    if isinstance(value, dict):
        return f"dict {[(_value(k, met), _value(v, met)) for k, v in value.items()]}"
    return f"{type(value).__qualname__} at {id(value)}"
