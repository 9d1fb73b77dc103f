"""What capture makes of a frame: where values come from, what was assumed, where it breaks, what is replayed."""

from __future__ import annotations

import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, dataclass_transform

import msgspec
import numpy as np
import torch

from explorer.core.files import is_standard
from explorer.core.origin import Origins, synthetic, synthetic_reason
from explorer.core.reasons import CATALOGUE, Unsupported, Why
from explorer.core.text import Line, Text, count
from explorer.ir.bytecode import Code, Span
from explorer.ir.graph import Graph
from explorer.ir.joint import Compiled
from explorer.ir.record import InputData
from explorer.ir.sizes import Assumed
from explorer.ir.wrappers import part_of

# ---------------------------------------------------------------------------------------------------------- sources


class _Asked:
    """Where a source keeps what is computed of it once: each goes down to the root."""

    __slots__ = ("_hash", "_name", "_root")
    _hash: int
    _name: str
    _root: Local | Global | Known


T = TypeVar("T")
R = TypeVar("R")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _source(cls: type[T]) -> type[T]:
    """A frozen dataclass that computes its hash and its name when they are asked first."""
    made = dataclass(frozen=True, slots=True)(cls)
    made.__hash__ = _once("_hash", made.__hash__)  # type: ignore[assignment, method-assign]
    made.name = property(_once("_name", made.name.fget))  # type: ignore[attr-defined]
    return made


def _once(slot: str, compute: Callable[[T], R]) -> Callable[[T], R]:
    kept = operator.attrgetter(slot)

    def asked(source: T) -> R:
        try:
            known: R = kept(source)
            return known
        except AttributeError:
            found = compute(source)
            object.__setattr__(source, slot, found)
            return found

    return asked


@_source
class Local(_Asked):
    """A local, cell or free variable of the captured frame at entry."""

    variable: str

    @property
    def name(self) -> str:
        return f"L[{self.variable!r}]"


@_source
class Global(_Asked):
    """A global of `module`; of the frame's own module where that is empty. Builtins are globals of "builtins"."""

    variable: str
    module: str = ""

    @property
    def name(self) -> str:
        return f"G[{self.variable!r}]" if not self.module else f"G({self.module!r})[{self.variable!r}]"


@_source
class Known(_Asked):
    """An object that capture holds itself (a class, a library function): always there, so never guarded itself.

    What is read from it is guarded, unless it is `fixed`: a result computed while tracing, that nobody else changes.
    """

    label: str
    object: object = field(compare=False, repr=False)
    fixed: bool = False

    @property
    def name(self) -> str:
        return f"K[{self.label!r}]"


@_source
class Attr(_Asked):
    base: Source
    attribute: str
    plain: bool = False
    """Whether it is read as `object` reads it, without what the class has for that in Python."""

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.attribute}"


@_source
class Item(_Asked):
    base: Source
    key: object

    @property
    def name(self) -> str:
        return f"{self.base.name}[{key_text(self.key)}]"


def key_text(key: object) -> str:
    """A key as source code has it; of a class whose `__repr__` is the program's, which is not to run, its name."""
    if type(key) is tuple:
        return f"({', '.join(map(key_text, key))}{',' * (len(key) == 1)})"
    asked = type(key).__repr__
    runs = isinstance(asked, types.FunctionType) and not is_standard(asked.__code__.co_filename)
    return f"<{type(key).__name__}>" if runs or isinstance(key, torch.Tensor) else repr(key)


@_source
class TypeOf(_Asked):
    base: Source

    @property
    def name(self) -> str:
        return f"type({self.base.name})"


@_source
class Size(_Asked):
    """One size of a tensor input."""

    base: Source
    dim: int

    @property
    def name(self) -> str:
        return f"{self.base.name}.size({self.dim})"


@_source
class Stride(_Asked):
    """One stride of a tensor input."""

    base: Source
    dim: int

    @property
    def name(self) -> str:
        return f"{self.base.name}.stride({self.dim})"


@_source
class Returned(_Asked):
    """What a method without arguments returns."""

    base: Source
    method: str

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.method}()"


@_source
class Listed(_Asked):
    """The keys or the values of a dictionary, in order: how those are reached whose keys no code can name."""

    base: Source
    part: Literal["keys", "values"]

    @property
    def name(self) -> str:
        return f"list({self.base.name}.{self.part}())"


@_source
class AsTensor(_Asked):
    """The tensor over the memory of a NumPy array or of a tensor subclass, or of the value of a number."""

    base: Source

    @property
    def name(self) -> str:
        return f"torch.as_tensor({self.base.name})"


@_source
class Inside(_Asked):
    """A tensor inside of a wrapper that requires grad, by which gradients reach the wrapper."""

    base: Source
    part: str

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.part}"


@_source
class Computed(_Asked):
    """What a function of Python's makes of numbers that the frame was given: `args` are sources and plain numbers."""

    function: Callable[..., object]
    args: tuple[object, ...]

    @property
    def base(self) -> Source:
        return next(arg for arg in self.args if isinstance(arg, Source))

    @property
    def name(self) -> str:
        given = (arg.name if isinstance(arg, Source) else repr(arg) for arg in self.args)
        return f"{getattr(self.function, '__name__', 'function')}({', '.join(given)})"


Source = (
    Local | Global | Known | Attr | Item | TypeOf | Size | Stride | Returned | Listed | AsTensor | Inside | Computed
)


def root(source: Source) -> Source:
    """The local, global or known object that `source` starts from."""
    return source if isinstance(source, (Local, Global, Known)) else _root(source)


def _of_base(source: Source) -> Source:
    assert not isinstance(source, (Local, Global, Known))
    return root(source.base)


_root = _once("_root", _of_base)


def item_of(base: Any, key: object) -> object:
    """What a container holds, whatever a class of the program makes of reading it."""
    if issubclass(type(base), dict) and not dict.__contains__(base, key):
        raise KeyError(key)  # dict.__getitem__ would ask __missing__, which may put something there
    kinds: tuple[Any, ...] = (dict, list, tuple)
    for kind in kinds:
        if issubclass(type(base), kind):
            return kind.__getitem__(base, key)
    return base[key]


own_attribute = object.__getattribute__


def read(source: Source, locals: Mapping[str, object], globals: Mapping[str, object]) -> Any:
    """The value that `source` names in a frame with these locals and globals.

    Raises what the access raises (KeyError, AttributeError, IndexError).
    """
    match source:
        case Local(variable):
            return locals[variable]
        case Global(variable, module):
            return globals[variable] if not module else vars(_module(module))[variable]
        case Known(_, object, _):
            return object
        case Attr(base, attribute, plain):
            return (own_attribute if plain else getattr)(read(base, locals, globals), attribute)
        case Item(base, key):
            return item_of(read(base, locals, globals), key)
        case TypeOf(base):
            return type(read(base, locals, globals))
        case Size(base, dim):
            return read(base, locals, globals).size(dim)
        case Stride(base, dim):
            return read(base, locals, globals).stride(dim)
        case Returned(base, method):
            return getattr(read(base, locals, globals), method)()
        case Listed(base, part):
            return list(getattr(dict, part)(read(base, locals, globals)))
        case AsTensor(base):
            return as_tensor(read(base, locals, globals))
        case Inside(base, part):
            return part_of(read(base, locals, globals), part)
        case Computed(function, args):
            return function(*(read(arg, locals, globals) if isinstance(arg, Source) else arg for arg in args))


def as_tensor(value: object) -> torch.Tensor | None:
    """What `AsTensor` reads, whatever the default device; None for an array that no tensor can share memory with."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(torch.Tensor)
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float64, device="cpu")
    try:
        return torch.from_numpy(value) if isinstance(value, np.ndarray) else torch.as_tensor(value, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        return None


def as_number(value: np.generic) -> object:
    """What an operator of torch takes a scalar of NumPy's for (PythonArgs::scalar_slow): a float, unless it is an
    integer or Python's complex."""
    is_rounded = isinstance(value, np.number | np.bool_) and not isinstance(value, np.integer | complex)
    return float(value) if is_rounded else value.item()


def _module(name: str) -> types.ModuleType:
    return sys.modules[name]


def share_no_memory(values: Iterable[object]) -> bool:
    """Whether the extents of these arrays and tensors in the CPU's memory do not overlap; False where one has no memory
    of its own, as a tensor around others has not."""
    extents = []
    for value in values:
        tensor = value if isinstance(value, torch.Tensor) else as_tensor(value)
        if tensor is not None and tensor.numel():
            storage = tensor.untyped_storage()
            try:
                extents.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
            except RuntimeError:
                return False
    extents.sort()
    return all(before[1] <= after[0] for before, after in itertools.pairwise(extents))


# ----------------------------------------------------------------------------------------------------------- guards


class Wording(NamedTuple):
    """A condition as records show it: as Python writes it; in two parts; as a sentence ("" where the text is one); what
    the value was at capture, where that is not `value`; and what a check needs, as fields of GuardData."""

    text: str
    relation: str
    value: str
    words: str = ""
    seen: str = ""
    data: Mapping[str, Any] = MappingProxyType({})


class Condition:
    """What a guard requires of the value at its source. compiler/capture/guards.py has a class for each kind."""

    kind: ClassVar[str]
    about: ClassVar[Literal["value", "identity", "sizes", "state"]] = "value"
    """What it is about: one value; which of several are one object or memory; relations of sizes; or no value. The
    C++ tree checks them in this order, after the state."""
    described: ClassVar[bool] = True
    """Whether a description of the value can answer it."""

    @property
    def key(self) -> object:
        """Two conditions of one key on one source ask the same."""
        return self.kind

    def shown(self, name: str) -> Wording:
        """Of a value called `name`."""
        raise NotImplementedError

    def sizes(self) -> tuple[int | float | None, ...] | None:
        """The sizes or the number that a call had, None for each that may differ; None where it is about neither."""
        return None

    def difference(self, value: object) -> str:
        """How `value` breaks it; "" where it holds."""
        raise NotImplementedError

    def failure(self, source: Source | None, frame: InputFrame) -> str:
        """How the frame breaks it; "" where it holds. Raises what reading the value raises."""
        assert source is not None
        return self.difference(read(source, frame.locals, frame.globals))


@dataclass(frozen=True, slots=True)
class ByProgram:
    """What the program did made a capture rely on something: the instructions `ids`, or nodes of the graph, at `span`,
    in the evaluator's step `step` (-1 where that is not known)."""

    ids: Origins
    span: Span | None
    step: int = -1


@dataclass(frozen=True, slots=True)
class ByCompiler:
    """No instruction did, but the compiler, for `reason`."""

    reason: str
    step: int = -1
    span: ClassVar[None] = None

    @property
    def ids(self) -> Origins:
        return (synthetic(self.reason),)


Cause = ByProgram | ByCompiler


def cause_of(ids: Origins, span: Span | None, step: int) -> Cause:
    reason = synthetic_reason(ids[0]) if ids else None
    return ByProgram(ids, span, step) if reason is None else ByCompiler(reason, step)


@dataclass(frozen=True, slots=True)
class Guard:
    """One assumption. `id` is "f0.guard3". `cause` is what made the capture rely on it, `why` says what for, `seen` is
    what it was then, where the condition does not say it."""

    id: str
    source: Source | None
    condition: Condition
    cause: Cause
    why: str
    seen: str = ""

    @property
    def kind(self) -> str:
        return self.condition.kind

    @property
    def text(self) -> str:
        return self.condition.shown(self.source.name if self.source is not None else "").text


def short(value: object) -> str:
    """An object in a word."""
    for attribute in ("__qualname__", "co_qualname", "__name__"):
        if name := getattr(value, attribute, None):
            return str(name)
    return repr(value) if value is None or isinstance(value, bool) else f"<{type(value).__name__}>"


# ------------------------------------------------------------------------------------- breaks, effects, the artifact


@dataclass(frozen=True, slots=True)
class Break:
    """Where the graph ends because something cannot be captured. `stack` is the user's call stack, outermost first."""

    why: Why
    instruction: str
    where: Span | None
    stack: tuple[str, ...] = ()
    continuation: str = ""
    """Name of the continuation; empty if Python runs the rest of the frame."""

    @property
    def code(self) -> str:
        return self.why.code

    @property
    def hint(self) -> str:
        return CATALOGUE[self.why.code].hint

    @property
    def text(self) -> str:
        place = f" at {self.where.id}" if self.where else ""
        onward = f", continues in {self.continuation}" if self.continuation else ", the rest of the frame runs eagerly"
        return f"{self.why} [{self.why.code}]{place}{onward}"


class BreakForbidden(Unsupported):
    """The program gets this error in place of the break."""

    reaches_program = True

    def __init__(self, why: Why, broken: Break) -> None:
        super().__init__(why)
        self.broken = broken


@dataclass(frozen=True, slots=True)
class Effect:
    """A side effect replayed after the graph, in order: what is changed ("L['self'].count", "log"), and how. `step` is
    the number of the evaluator's step that first made it."""

    kind: Literal["attribute", "list", "dict", "set", "deque", "cell", "global", "state", "call", "iterator"]
    target: str
    detail: str
    origins: Origins = ()
    step: int = -1

    @property
    def text(self) -> str:
        return f"{self.kind} {self.target} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class KnownEffects:
    """A run of the frame does nothing but this, and what the operators of its graph do."""

    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class UnknownEffects:
    """What a run of the frame does is not known, for this reason."""

    why: Why


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input: where the compiled bytecode finds it, and the placeholder's name."""

    name: str
    source: Source
    about: str = ""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a size or a float: its value when traced, where it comes from, its range, and why it is dynamic."""

    name: str
    hint: int | float
    source: Source
    lower: int | None
    upper: int | None
    why: str
    step: int = -1


@dataclass(frozen=True, slots=True)
class Specialized:
    """A size or number that was made a constant, and why."""

    source: Source
    value: int
    why: str
    step: int = -1


@dataclass(frozen=True, slots=True)
class Continued:
    """A continuation: its code object, its body as it was built, and the compile whose break first led to it."""

    code: types.CodeType
    body: Code
    compile: str


@dataclass(frozen=True)
class FrameHistory:
    """What earlier compiles of a code object leave for later ones: sizes seen, and the continuations it has."""

    sizes: Mapping[str, tuple[int | float | None, ...] | None] = field(default_factory=dict)
    """By source name: the sizes seen, None where they differed, or where how many there are did (a number counts as one
    size)."""
    continuations: Mapping[str, Continued] = field(default_factory=dict)
    """By name: those of a function and of all continuations of it, since a continuation breaks into its siblings."""
    body: Code | None = None
    """The body of a continuation, as it was built: its instructions keep the ids they have in the function."""
    base: Code | None = None
    """The function that a continuation continues."""
    continues: str = ""
    """The compile whose break first led to a continuation."""
    compiles: int = 0
    gave_up: Why | None = None

    def after(self, capture: Capture) -> FrameHistory:
        """With the sizes and numbers that a capture met; those that differ from earlier ones count as changing."""
        found: dict[str, tuple[int | float | None, ...]] = {}
        for guard in capture.guards:
            if guard.source is not None and (now := guard.condition.sizes()) is not None:
                found[guard.source.name] = now
        found |= {symbol.source.name: (None,) for symbol in capture.symbols if not isinstance(symbol.source, Size)}
        sizes = dict(self.sizes)
        for name, now in found.items():
            before = sizes.get(name, now)
            same_rank = before is not None and len(before) == len(now)
            joined = (a if a == b else None for a, b in zip(before or (), now, strict=False))
            sizes[name] = tuple(joined) if same_rank else None
        return replace(self, sizes=sizes)

    def changes(self, name: str, place: int, *now: int | float) -> bool:
        """Whether a size, or the number, that is now the one at `place` of `now` was something else before."""
        if name not in self.sizes:
            return False
        before = self.sizes[name]
        return before is None or len(before) != len(now) or before[place] != now[place]


@dataclass(frozen=True)
class InputFrame:
    """A frame about to run: `id` is "f0", or "f0.1" for a recompile; `locals` also holds what cells contain."""

    id: str
    code: types.CodeType
    locals: Mapping[str, object] = field(repr=False)
    globals: dict[str, object] = field(repr=False)
    builtins: Mapping[str, object] = field(repr=False)
    cells: Mapping[str, types.CellType] = field(repr=False, default_factory=dict)
    """The cells of free variables."""
    history: FrameHistory = field(default_factory=FrameHistory, repr=False)
    devices: tuple[torch.device, ...] = ()
    """Default devices of the torch.device blocks around it (or set for all), the one in force last."""


@dataclass(frozen=True)
class Capture:
    """What became of one frame.

    `graph` is None where there is nothing to compile; `compiled_bytecode` is None where the frame runs as it was, with
    `fallback` saying why when that is no choice. `inlined` are the bodies of the functions evaluated inside the frame.
    """

    name: str
    code: Code
    graph: Graph | None
    inputs: tuple[Input, ...]
    guards: tuple[Guard, ...]
    breaks: tuple[Break, ...]
    effects: tuple[Effect, ...]
    compiled_bytecode: Code | None
    continuations: tuple[Code, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    specialized: tuple[Specialized, ...] = ()
    inlined: tuple[Code, ...] = ()
    fallback: Why | None = None
    assumed: tuple[Assumed, ...] = ()
    """What the capture relies on about sizes; guards say it of sources."""
    given: tuple[InputData, ...] = ()
    """What the frame was given: its arguments, and all else that a guard asks about."""
    frame: InputFrame | None = field(default=None, compare=False, repr=False)
    """The frame it was made from, while the process lives: guards are built against its values."""

    def let_go(self) -> Capture:
        """The same without what the frame held."""
        frame = self.frame and replace(self.frame, locals={}, globals={}, builtins={}, cells={})
        return replace(self, frame=frame)

    def text(self) -> Text:
        lines: list[Line] = []
        if self.fallback is not None:
            lines.append(Line(f"runs eagerly: {self.fallback} [{self.fallback.code}]"))
        if self.graph is not None:
            lines += [*self.graph.text().lines, Line("")]
        if self.inputs:
            lines.append(Line("inputs"))
            lines += [Line(f"  {i.name} = {i.source.name}{f'  # {i.about}' if i.about else ''}") for i in self.inputs]
        if self.symbols:
            lines.append(Line("sizes"))
            lines += [Line(f"  {s.name} = {s.source.name} (now {s.hint}, {_range(s)}): {s.why}") for s in self.symbols]
        if self.specialized:
            lines += [Line(f"  {s.source.name} = {s.value}: {s.why}") for s in self.specialized]
        lines.append(Line(f"guards ({len(self.guards)})"))
        lines += [Line(f"  {g.text}", g.id, g.cause.ids) for g in self.guards]
        if self.effects:
            lines.append(Line("effects"))
            lines += [Line(f"  {e.text}", "", e.origins) for e in self.effects]
        if self.breaks:
            lines.append(Line("breaks"))
            lines += [Line(f"  {b.text}", "", (b.instruction,)) for b in self.breaks]
        if self.compiled_bytecode is not None:
            lines += [Line(""), *self.compiled_bytecode.text().lines]
        for continuation in self.continuations:
            lines += [Line(""), *continuation.text().lines]
        return Text(tuple(lines), "text")


def _range(symbol: Symbol) -> str:
    lower = "" if symbol.lower is None else f"{symbol.lower} <= "
    upper = "" if symbol.upper is None else f" <= {symbol.upper}"
    return f"{lower}{symbol.name}{upper}"


@dataclass(frozen=True)
class Linking:
    """What LINK takes: the capture, and its graph compiled (None where there is no graph)."""

    capture: Capture
    compiled: Compiled | None


class GuardRoot(Protocol):
    """The root of the guards that C++ checks, in the wrapper that frame evaluation reads."""

    root: object
    code: types.CodeType | None
    """What runs while they hold."""

    def check(self, locals: dict[str, object]) -> bool: ...
    def failure(self, locals: dict[str, object]) -> str: ...
    def discard(self) -> None: ...


@dataclass(frozen=True)
class GuardedCode:
    """What LINK yields: the code to run in the frame's place while `check` holds. `code` is None to run it as it is."""

    name: str
    code: types.CodeType | None
    guards: tuple[Guard, ...]
    manager: GuardRoot | None = field(compare=False, repr=False, default=None)
    breaks: tuple[Break, ...] = ()
    fallback: Why | None = None
    """Why the frame runs as it is, with no guards, from now on."""
    is_idle: bool = False
    """Whether it holds no graph, and no break but where the program raises: nothing was compiled."""
    history: FrameHistory = field(default_factory=FrameHistory, compare=False, repr=False)
    """The frame's history with this compile."""

    def text(self) -> Text:
        runs = "compiled bytecode" if self.code else "runs as it is"
        lines = [Line(f"guarded code {self.name}: {count(len(self.guards), 'guard')}, {runs}")]
        lines += [Line(f"  {g.text}", g.id, g.cause.ids) for g in self.guards]
        return Text(tuple(lines), "text")


# ----------------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Restarted:
    """The evaluation started over, to end the graph before `instruction`."""

    frame: str
    instruction: str
    why: Why


@dataclass(frozen=True, slots=True)
class Inlined:
    """A call was evaluated inside its caller's frame."""

    frame: str
    function: str
    at: str


@dataclass(frozen=True, slots=True)
class GuardFailed:
    """A frame is compiled again: guard `guard` of its earlier compile `of` does not hold, and `how`, with the values.

    `guard` is "" where only the C++ check refuses; `expression` is then what it says.
    """

    of: str
    guard: str
    expression: str
    how: str


@dataclass(frozen=True, slots=True)
class FrameSkipped:
    """A frame runs eagerly; the reason stays with it."""

    TOTAL: ClassVar[str] = "frames run eagerly"

    frame: str
    where: str
    why: Why


@dataclass(frozen=True, slots=True)
class CallSkipped:
    """One call of a compiled function runs eagerly; others need not."""

    function: str
    why: Why


@dataclass(frozen=True, slots=True)
class CompilerBug:
    """An exception inside the compiler; the frame runs eagerly."""

    TOTAL: ClassVar[str] = "compiler bugs"

    frame: str
    traceback: str


@dataclass(frozen=True, slots=True)
class GraphRaised:
    """An exception that a graph raised as it ran; the program may be its cause. The frame runs eagerly instead."""

    TOTAL: ClassVar[str] = "graphs that raised"

    frame: str
    traceback: str
    graph_raised: str


@dataclass(frozen=True, slots=True, eq=False)
class Activation:
    """A frame that the evaluator entered: the root, or a function inlined into `caller`."""

    function: str
    caller: Activation | None


class ValueDescription(msgspec.Struct, eq=False):
    """A value that does not change, as all steps show it, also those before it was read. `shared`: all equal values
    have this description, so that no single step made it."""

    text: str
    shared: bool


@dataclass(frozen=True, slots=True)
class Contained:
    """A value that changes, as a step saw it: of a container, `items` are the first of what it held, each with
    its key or index. `of` identifies the value."""

    of: object = field(compare=False)
    text: str
    items: tuple[tuple[ValueDescription | Contained | int, ValueDescription | Contained], ...] = ()


@dataclass(eq=False)
class EvaluatorSteps:
    """Instructions about to be evaluated, and what the frame holds then, in columns: an object for each step would take
    as long as all else that is done for it. The stack of step i is `stacks[ends[i - 1] : ends[i]]`, `nodes[i]` how many
    nodes the graph has then, placeholders not counted. Steps between which no local changed share their `locals`."""

    CAP: ClassVar[int] = 50_000
    """Steps kept in one compile: AdamW's for a transformer of twelve layers takes 33,000."""

    numbers: list[int] = field(default_factory=list)
    """From 0, in this evaluation of the frame."""
    instructions: list[str] = field(default_factory=list)
    activations: list[Activation] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    stacks: list[ValueDescription | Contained] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    locals: list[Mapping[str, ValueDescription | Contained]] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
