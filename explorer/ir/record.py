"""The record: plain data, versioned JSON, everything a view needs and nothing that can run.

Ids are unique within one compile. An element's `origins` are ids one level up in the same compile; a source line's id
is "FILE:LINE". What no source line caused has the origin "synthetic:REASON".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from explorer.core.files import visible, writable
from explorer.core.reasons import reason
from explorer.core.text import count

TARGET_ABSENT = reason(
    "pipeline.target_absent",
    "the target is not on this machine",
    "Code was generated and compiled for the named target but not run; the program itself ran eagerly.",
    "Run on a machine with the target and pass tensors on it, or omit target=.",
)

VERSION = 2
"""One more where a field is renamed or removed. Records of earlier versions are refused: no release wrote them."""
MIME = "application/vnd.explorer.record+json"
DIFF_MIME = "application/vnd.explorer.diff+json"


Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A whole number. Records come from strangers: each number in one has bounds, which its file is checked against."""

Line = Annotated[int, msgspec.Meta(ge=-1, le=1_000_000_000)]
"""A place in a file; -1 where it is not known."""


def plain(shown: object) -> Any:
    """Data as JSON has it: dictionaries, lists, texts and numbers."""
    return msgspec.json.decode(encoded(shown))


def encoded(shown: object) -> bytes:
    """Data as JSON. Halves of characters, which the program's strings may hold and JSON cannot, are written out."""
    try:
        return msgspec.json.encode(shown)
    except UnicodeEncodeError:
        return msgspec.json.encode(_writable(msgspec.to_builtins(shown)))


def _writable(value: object) -> Any:
    match value:
        case str():
            return writable(value)
        case dict():
            return {_writable(key): _writable(each) for key, each in value.items()}
        case list() | tuple():
            return [_writable(each) for each in value]
    return value


def at_most(count: int, by: str = "") -> msgspec.Meta:
    """How many items of a list a viewer shows; `by` names the field that tells them apart."""
    return msgspec.Meta(extra={"most": count, "by": by})


class Data(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of every structure of the record."""

    def __str__(self) -> str:
        """A line for each field that says something, cut where it is long; `repr` has all of it."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        lines = [f"  {name}: {_brief(value)}" for name, value in fields if value not in (None, "", (), {})]
        return visible("\n".join([type(self).__name__, *lines]))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython and notebooks show."""
        printer.text(str(self))


BRIEF = 100
"""Characters of a field where a structure is printed."""


def _brief(value: object) -> str:
    if isinstance(value, Data) and type(value).__str__ is Data.__str__:
        return f"{type(value).__name__}(...)"
    if isinstance(value, tuple | dict) and len(str(value)) > BRIEF:
        return count(len(value), "item")
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    first = text.partition("\n")[0][:BRIEF]
    return first if first == text else f"{first} ..."


class LineData(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """[text, id, origins]"""

    text: str
    id: str = ""
    origins: tuple[str, ...] = ()


class TextData(Data, frozen=True):
    """`language` is a Pygments lexer's name."""

    lines: Annotated[tuple[LineData, ...], at_most(500_000)]
    language: str = "text"

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)


class SpanData(Data, frozen=True):
    file: str
    line: Line
    end_line: Line
    column: Line = -1
    end_column: Line = -1

    def place(self, names: Mapping[str, str] = MappingProxyType({})) -> str:
        """FILE:LINE; `names` has what a person calls a file whose path says little."""
        return f"{names.get(self.file, self.file)}:{self.line}"

    def __str__(self) -> str:
        return self.place()


class SourceData(Data, frozen=True):
    """A stretch of a source file: its lines from `first_line` (1-based). `name` is what a person calls the file where
    its path says little: "In[3]" for a notebook's cell."""

    file: str
    first_line: Line
    text: str
    name: str = ""


class WhyData(Data, frozen=True):
    """A catalogue code, its title, and the particulars."""

    code: str
    title: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}" if self.detail else self.title

    @property
    def cited(self) -> str:
        """With its code, by which documents name it."""
        return f"{self} [{self.code}]"


class NodeData(Data, frozen=True):
    """A graph node. `inputs` are node ids; `type` reads like "f32[4, 8]"; `bytes` by size hints."""

    id: str
    name: str
    op: str
    target: str
    type: str
    inputs: tuple[str, ...]
    origins: tuple[str, ...]
    module: str = ""
    about: str = ""
    bytes: Whole = 0
    span: SpanData | None = None


class GraphData(Data, frozen=True):
    name: str
    nodes: tuple[NodeData, ...]
    outputs: tuple[str, ...]

    @property
    def calls(self) -> tuple[NodeData, ...]:
        """What runs an operator, a method or a module; not what takes a result out of a tuple of several."""
        several = {node.id for node in self.nodes if node.type.startswith("(")}
        return tuple(
            node for node in self.nodes
            if node.op.startswith("call") and (node.target != "operator.getitem" or several.isdisjoint(node.inputs))
        )  # fmt: skip


class GradNodeData(Data, frozen=True):
    """A node of eager's autograd graph; `inputs` are the nodes its gradients flow to."""

    id: str
    name: str
    origins: tuple[str, ...]
    inputs: tuple[str, ...]


class InstructionData(Data, frozen=True):
    id: str
    op: str
    arg: str
    target: str = ""
    origins: tuple[str, ...] = ()
    span: SpanData | None = None
    stack: tuple[Whole, Whole] = (0, 0)
    """Change of the stack's depth: going on to the next instruction, and jumping to the target."""


class CodeData(Data, frozen=True):
    """`role` is "original", "rewritten", "continuation" or "inlined" (evaluated inside the frame, at least once)."""

    name: str
    role: str
    file: str
    line: Line
    instructions: tuple[InstructionData, ...]
    python: str = ""
    """Of what was rewritten, and of continuations: a text that does the same, where one is known to."""


class TensorFactsData(Data, frozen=True):
    """A tensor's description. `dtype` reads like "float32"; None in `sizes` and `strides` stands for any value;
    `strides` is None where they do not matter or do not exist (sparse). `type` is the class's qualified name."""

    dtype: str
    device: str
    sizes: tuple[Whole | None, ...]
    strides: tuple[Whole | None, ...] | None = None
    requires_grad: bool = False
    type: str = "torch.Tensor"

    def differences(self, given: TensorFactsData) -> list[str]:
        """How the tensor `given` breaks these facts, one phrase each. Strides count where all else fits, and only
        along dimensions that have another size than 1."""
        found = [
            f"{name} is {theirs}, expected {ours}"
            for name, ours, theirs in (
                ("dtype", self.dtype, given.dtype),
                ("device", self.device, given.device),
                ("requires_grad", self.requires_grad, given.requires_grad),
                ("type", self.type, given.type),
                ("rank", len(self.sizes), len(given.sizes)),
            )
            if ours != theirs
        ]
        if len(self.sizes) != len(given.sizes):
            return found
        sizes = enumerate(zip(self.sizes, given.sizes, strict=True))
        found += [
            f"size({d}) is {theirs}, expected {ours}" for d, (ours, theirs) in sizes if ours not in (None, theirs)
        ]
        if found or self.strides is None or given.strides is None:
            return found
        strides = enumerate(zip(self.strides, given.strides, strict=True))
        return [
            f"stride({d}) is {theirs}, expected {ours}"
            for d, (ours, theirs) in strides
            if ours not in (None, theirs) and given.sizes[d] != 1
        ]


class ConstantData(Data, frozen=True):
    """A plain value. `type` is its class's name ("int", "NoneType"), `text` its repr. `value` is the value itself where
    JSON has it: a bool, an int up to 2**53 in size, a finite float, a str; None otherwise. Two constants are the same
    if type and value are the same, and the text too where `value` is None."""

    type: str
    text: str
    value: bool | float | str | None = None


class ExpressionData(Data, frozen=True):
    """A tree over sizes, all of whose numbers are exact.

    Leaves: "number" (`value`), "size" and "stride" (dimension `value` of tensor `source`), "value" (the number that is
    `source`). Inner nodes, by their operator over `arguments`: "+" and "*" (two or more), "-" (one), "//" and "%"
    (rounding down, the sign of the divisor), "/", "**", "min", "max", "abs", "floor", "ceil"; "<", "<=", ">", ">=",
    "==", "!="; "and", "or", "not"; "if" (condition, then, else). "?" stands for what this grammar lacks (`text` says
    what): whether it holds is then unknown.
    """

    op: str
    arguments: tuple[ExpressionData, ...] = ()
    value: float = 0
    source: str = ""
    text: str = ""


class GlobalStateData(Data, frozen=True):
    """What a program's results depend on beside its inputs."""

    grad_enabled: bool
    autocast: tuple[str, ...] = ()
    """Enabled ones, as "cpu bfloat16"."""
    default_dtype: str = "float32"
    deterministic: bool = False
    threads: Whole = 1
    devices: tuple[str, ...] = ()
    """The default devices of open blocks, innermost last."""

    def differences(self, given: GlobalStateData) -> list[str]:
        """How the state `given` differs, one phrase each."""
        ours, theirs = self._facts(), given._facts()
        return [f"{name} is {theirs[name]}, expected {value}" for name, value in ours.items() if theirs[name] != value]

    def _facts(self) -> dict[str, str]:
        return {
            "grad mode": "on" if self.grad_enabled else "off",
            "autocast": " and ".join(sorted(self.autocast)) or "off",
            "default dtype": self.default_dtype,
            "deterministic mode": "on" if self.deterministic else "off",
            "default device": " in ".join(reversed(self.devices)) or "not set",
            "number of threads": str(self.threads),
        }


class InputData(Data, frozen=True):
    """A value that a frame was given, or the description of one.

    `kind` is "tensor" (`tensor` says more), "number", "bool", "str" or "none" (`constant`), "list" or "tuple"
    (`length`), "dict" (`keys`), "object" (`type`). `role` is "argument" (a local of the frame), "global", "closure", or
    "reached" (through one of these; a parameter of a module, say). `name` is the graph's placeholder, where it is an
    input of it. `same_as` is the source of an earlier input that is the same object.
    """

    source: str
    kind: str
    role: str = "argument"
    type: str = ""
    tensor: TensorFactsData | None = None
    constant: ConstantData | None = None
    length: Whole | None = None
    keys: tuple[ConstantData, ...] | None = None
    name: str = ""
    same_as: str = ""


class GuardData(Data, frozen=True):
    """`source` is Python text of what is checked; `property`, `relation`, `value` say what must hold; `seen` is its
    value at capture. `cause` is the instruction that needs it, or "synthetic:REASON"; `span` is None only then.

    What a check needs beside `source`, by `property`:
    tensor: `tensor`, each given fact equal. type: `type`, the qualified name. constant: `constant`. length: `length`.
    keys: `keys`, in this order. empty: `length` is 0 for "is empty", 1 for "is not empty". has: `keys` holds the one
    key or attribute name, `relation` is "has key", "lacks key", "has attribute" or "lacks attribute". shape: `shape`,
    true. alias: `others` holds the one source that it is the same object as (`relation` "is"), or the tensor sources
    that are all different objects ("are distinct"). global_state: `state`. id, code: the object itself, which a
    description can only give where `constant` does (None, True, False). value: a check in Python, named by `relation`
    and `value`.
    """

    id: str
    source: str
    property: str
    relation: str
    value: str
    expression: str
    why: str
    cause: str = ""
    span: SpanData | None = None
    seen: str = ""
    tensor: TensorFactsData | None = None
    type: str = ""
    constant: ConstantData | None = None
    length: Whole | None = None
    keys: tuple[ConstantData, ...] | None = None
    shape: ExpressionData | None = None
    others: tuple[str, ...] = ()
    state: GlobalStateData | None = None
    words: str = ""
    """What `expression` asks, in words, where it is not Python as a person writes it."""
    of_torch: bool = False
    """Whether it is about torch's own state and modules, and not about a value of the program."""
    step: Whole = -1
    """That made it; -1 where none did, or where it is not known."""


class GuardCostData(Data, frozen=True):
    """What the `checks` of one `source` add to a call, reading it included; "" is what is asked of torch's state and of
    several values at once. `whole`: with all that is read from it."""

    source: str
    checks: Whole
    seconds: float
    whole: bool = False


class RecompileData(Data, frozen=True):
    """Why the earlier compile `of` the same frame did not accept this call: a guard of it that failed ("" where it
    cannot be told which), and how, with the values. One for each such guard, first that at which the check stops.
    `seen` is what the guard's source was at this call, where that can be told; `words` what failed, where `why` does
    not say it as a person would."""

    of: str
    guard: str
    expression: str
    why: str
    seen: str = ""
    words: str = ""


class ActivationData(Data, frozen=True):
    """A frame that the evaluator entered: the root (`depth` 0), or a function inlined into `caller` (an index into the
    compile's activations). A second root means that the evaluation started over, to end the graph earlier."""

    function: str
    depth: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    caller: Whole = -1


class FunctionCostData(Data, frozen=True):
    """What capturing one function took, over its `calls` inlined into the frame: `seconds` in its own instructions, and
    `whole` with those of the functions that it calls. Recording is part of both."""

    function: str
    calls: Whole
    seconds: float
    whole: float


class ValueData(Data, frozen=True, array_like=True):
    """[text, step, items]: a value of the evaluator, as one step saw it. `step` is the step that brought it about; -1
    where none did: it was there at entry, or is None. Every field `step` of a record is an index into the compile's
    steps. `items` are the first of what a container held: what leads to each, and an index of a value before this."""

    text: str
    step: Whole = -1
    items: tuple[tuple[str, Whole], ...] = ()


class StepData(Data, frozen=True, array_like=True):
    """[instruction, activation, nodes, kept, pushed, locals]: the evaluator's state before it ran `instruction`.

    The state is kept by activation (an index), each step a change to what that activation's last step left: the lowest
    `kept` values of the stack stay, `pushed` (indices of values) come on top; `locals` were bound since (-1 unbinds).
    `nodes` is how many nodes the graph had, placeholders not counted; some may be dropped later, as nothing uses them.
    """

    instruction: str
    activation: Whole
    nodes: Whole
    kept: Whole = 0
    pushed: tuple[Whole, ...] = ()
    locals: dict[str, Whole] = {}


class BreakData(Data, frozen=True):
    why: WhyData
    instruction: str
    span: SpanData | None
    stack: Annotated[tuple[str, ...], at_most(500)]
    hints: Annotated[tuple[str, ...], at_most(100)]
    continuation: str = ""
    """Names of the codes (of role "continuation") that go on after it, separated by ", "; "" where nothing does."""
    rewrite: Annotated[tuple[str, ...], at_most(1000)] = ()
    """Lines of the function with "-" and "+" in front: what could be written instead, where such a rewrite is known."""
    cell: str = ""
    """What to run in a cell of the notebook so that the program does so; "" where a cell cannot change it."""
    tried: str = ""
    """What came of the rewrite; "" where it has not run."""
    step: Whole = -1


class EffectData(Data, frozen=True):
    kind: str
    expression: str
    origins: tuple[str, ...]
    step: Whole = -1
    """The first that made it."""


class SymbolData(Data, frozen=True):
    """A symbolic size. `status` is "dynamic", "specialized" or "equal to" another; `why` says what made it so."""

    name: str
    hint: Whole | None
    source: str
    range: str
    status: str
    why: str
    step: Whole = -1


class SavedData(Data, frozen=True):
    """A value the backward needs. `kind` is "saved", "input" (alive anyway) or "recomputed". `seconds` is what a saved
    value takes to compute again, operator by operator, from inputs and what else is saved; None where not measured."""

    id: str
    kind: str
    bytes: Whole
    why: WhyData
    seconds: float | None = None


class BufferData(Data, frozen=True):
    """`why` says why it is in memory at all; `where` is the memory plan's place, `first` and `last` its life in the
    schedule."""

    name: str
    type: str
    kind: str
    origins: tuple[str, ...]
    why: WhyData | None = None
    where: str = ""
    where_why: WhyData | None = None
    offset: Whole = 0
    of: str = ""
    bytes: Whole = 0
    first: Whole = 0
    last: Whole = 0


class OperationData(Data, frozen=True):
    """A loop or a library call."""

    id: str
    kind: str
    target: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    origins: tuple[str, ...]
    why: WhyData | None = None


class FusionData(Data, frozen=True):
    first: str
    second: str
    ok: bool
    why: WhyData
    score: float = 0.0
    later: bool = False
    """They fit, and were put off until nothing was left that saves memory traffic."""


class ItemData(Data, frozen=True):
    """One entry of the schedule: a kernel with its operations, or a library call."""

    id: str
    kind: str
    operations: Annotated[tuple[str, ...], at_most(3000)]
    outer: str = ""
    inner: str = ""
    internal: tuple[str, ...] = ()
    why: WhyData | None = None
    """Why it is fused with nothing, where that is so whatever the other is."""


class ScheduleData(Data, frozen=True):
    """`fusions` are the last verdicts on each pair; `otherwise` says why two kernels are apart between which none is
    listed; `tried` is what was asked, in that order, about the two groups that the operations were in by then."""

    items: tuple[ItemData, ...]
    fusions: tuple[FusionData, ...]
    tried: Annotated[tuple[FusionData, ...], at_most(500_000)] = ()
    otherwise: WhyData | None = None


class MemoryData(Data, frozen=True):
    """`measured`: what one run held, inputs left out, at each step of the schedule and after the last."""

    pool: Whole
    peak_before: Whole
    peak_after: Whole
    measured: tuple[Whole, ...] = ()


class ArgumentData(Data, frozen=True):
    """What a kernel is called with: the memory of `buffer`, or a number, the value of `size`."""

    buffer: str = ""
    size: str = ""
    written: bool = False


class TiledLoopData(Data, frozen=True):
    """A loop of a kernel, inside `depth` others. `kind`: "serial", "parallel", "vector", "parallel vector"; `tile`: the
    points of a step that loops further in, or a block's lanes, go over; 0 where a step is one point."""

    axis: str
    kind: str
    size: str
    tile: Whole = 0
    depth: Whole = 0


class MnemonicData(Data, frozen=True, array_like=True, omit_defaults=True):
    """[means, intel]: what an instruction does, in a line, and what it is in Intel's syntax where that is another name:
    "mov QWORD PTR", with the size of what it reads from memory."""

    means: str
    intel: str = ""


class KernelData(Data, frozen=True):
    """`seconds` is the median of one launch, where it was timed. `lowered` gives the machine's texts by kind ("asm",
    "ttir", "ttgir", "llir", "ptx", "sass")."""

    id: str
    function: str
    language: str
    source: TextData
    origins: tuple[str, ...]
    bytes: Whole
    flops: Whole
    seconds: float | None = None
    lowered: dict[str, TextData] = {}
    arguments: tuple[ArgumentData, ...] = ()
    loops: tuple[TiledLoopData, ...] = ()
    remarks: dict[str, str] = {}
    """What the compiler says of loops, by the ids of the source's lines: vectorized, or why not."""
    vectorized: tuple[str, ...] = ()
    """Those of these ids whose loops are."""
    facts: tuple[str, ...] = ()
    """What the compiler says of all of it: registers, spills, shared memory; before that, of a kernel with `loops`, why
    its tiles are what they are."""


class BuildData(Data, frozen=True):
    tool: str
    command: tuple[str, ...]
    version: str
    output: str
    seconds: float
    cached: bool


class WrittenData(Data, frozen=True):
    """What the `kernel` (or library call) wrote to `buffer` in one call, in words, and what eager operators compute for
    the graph's `node` of which that is the value. `node` is "" where there is none, and nothing to compare with.

    `error` is the largest distance of the two; None where other elements are finite. `differs`: beyond tolerance, and
    further than eager from a run in float64. `nonfinite`: how many elements are NaN or infinite; `began`: the first
    node of this kernel of which that is so in eager.
    """

    kernel: str
    buffer: str
    ours: str
    node: str = ""
    eager: str = ""
    error: float | None = None
    differs: bool = False
    nonfinite: Whole = 0
    began: str = ""


class HalfData(Data, frozen=True):
    """One half from lowering to the built program. `part` is "inference", "forward" or "backward"."""

    name: str
    target: str
    buffers: Annotated[tuple[BufferData, ...], at_most(5000)] = ()
    operations: tuple[OperationData, ...] = ()
    schedule: ScheduleData | None = None
    memory: MemoryData | None = None
    kernels: tuple[KernelData, ...] = ()
    wrapper: TextData | None = None
    builds: tuple[BuildData, ...] = ()
    extern_seconds: dict[str, float] = {}
    nodes: dict[str, tuple[str, tuple[str, ...]]] = {}
    """What became of each ATen node: ("kernel" | "extern" | "view" | "constant", operation ids)."""
    runs: bool = True
    extern_flops: dict[str, Whole] = {}
    """Floating-point operations of the library calls that are products, convolutions or attention."""
    written: tuple[WrittenData, ...] = ()
    """What one call wrote, in order, where it was run kernel by kernel and compared with eager."""


Depth = Annotated[int, msgspec.Meta(ge=0, le=99)]


class StageData(Data, frozen=True):
    """One call of a stage. `half` names the half it belongs to; `error` is what ended it. `halves` are the forward and
    the backward graph, where it cut one in two.

    `same_as` is the id of the earlier stage whose artifact this one left as it was; `body` and `graph` are then absent.
    """

    id: str
    name: str
    started: float
    seconds: float
    depth: Depth
    half: str = ""
    body: TextData | None = None
    graph: GraphData | None = None
    error: str = ""
    same_as: str = ""
    halves: tuple[GraphData, ...] = ()

    def text(self) -> str:
        """What the stage made, as one reads it in a terminal."""
        if self.same_as:
            return f"(unchanged since {self.same_as})"
        if self.error:
            return f"(failed: {self.error})"
        return "" if self.body is None else str(self.body)


class RewriteData(Data, frozen=True, array_like=True):
    """[stage, pattern, gone, was, by, now, whys]: a pass found `pattern` in the graph and took the node `gone` out,
    which read `was`; its users read `by` instead ("" where it had none). Or lowering made operations of it, which
    are `by`, separated by ", "; `whys` is why the last is there."""

    stage: str
    pattern: str
    gone: str
    was: str
    by: str = ""
    now: str = ""
    whys: tuple[WhyData, ...] = ()


class CacheKeyData(Data, frozen=True):
    """A key that stock looked for in one of its caches, by its parts, each a hash and the beginning of its text. Where
    `like` names the nearest key before it (its `id`), `parts` are those that differ from it, and `lacks` those that
    only the earlier one has."""

    id: str
    cache: str
    key: str
    parts: Annotated[dict[str, str], at_most(5000)]
    like: str = ""
    lacks: tuple[str, ...] = ()


class EventData(Data, frozen=True):
    """An attempt: its type's name and its fields as text."""

    kind: str
    fields: dict[str, str]


class CompileData(Data, frozen=True):
    """Everything of one compile of a frame ("f0"), a recompile of it ("f0.1") or a graph ("g0")."""

    id: str
    title: str
    started: float
    seconds: float
    stages: Annotated[tuple[StageData, ...], at_most(5000, by="id")] = ()
    codes: tuple[CodeData, ...] = ()
    guards: tuple[GuardData, ...] = ()
    breaks: Annotated[tuple[BreakData, ...], at_most(300)] = ()
    effects: tuple[EffectData, ...] = ()
    symbols: tuple[SymbolData, ...] = ()
    saved: tuple[SavedData, ...] = ()
    eager_backward: tuple[GradNodeData, ...] = ()
    halves: tuple[HalfData, ...] = ()
    events: tuple[EventData, ...] = ()
    left_out: dict[str, Whole] = {}
    error: str = ""
    """All that the exception says which ended it. `raises`: it reached the program; else the frame runs eagerly."""
    raises: bool = False
    fallback: WhyData | None = None
    inputs: tuple[InputData, ...] = ()
    recompiles: tuple[RecompileData, ...] = ()
    """Of each earlier compile of the frame that is still in use, in order."""
    continues: str = ""
    """The compile whose break first led to this frame, where it is a continuation."""
    activations: tuple[ActivationData, ...] = ()
    steps: Annotated[tuple[StepData, ...], at_most(500_000)] = msgspec.field(name="trace", default=())
    """In order; `left_out["EvaluatorStep"]` counts those after the last one kept. In JSON "steps" is what older records
    have, in another form; it is not read."""
    values: Annotated[tuple[ValueData, ...], at_most(500_000)] = ()
    """What the steps hold."""
    made: dict[str, Whole] = {}
    """Ids of nodes of the captured graph, and the step that made each."""
    engine: str = "explorer"
    """"explorer", or "stock": who compiled."""
    inferred: dict[str, tuple[str, ...]] = {}
    """Ids of elements whose `origins` their compiler did not tell, by how they were worked out."""
    runs: Whole = 0
    """How often its graph ran, and the seconds that took, where a program was watched."""
    run_seconds: float = 0.0
    guard_seconds: float | None = None
    """What checking all guards takes, where it was timed: each call that uses the code pays it."""
    guard_costs: tuple[GuardCostData, ...] = ()
    """Of it, by source, dearest first, where calls were timed."""
    rules: dict[str, str] = {}
    """Ids of nodes, loops and kernels that a person's own rule made, and of its name."""
    rewrites: Annotated[tuple[RewriteData, ...], at_most(500_000)] = ()
    """What the passes over the graph replaced, and what lowering made of each node, in order."""
    functions: tuple[FunctionCostData, ...] = ()
    """Where the time of capture went, dearest first."""
    cache_keys: tuple[CacheKeyData, ...] = ()
    """What was looked for in stock's caches, of a program that was watched."""
    called: str = ""
    """What a person calls a continuation, whose title is a made-up name: "step after line 12"."""

    def half_title(self, half: str) -> str:
        """ "f0.1 forward" of its half "f0_1_forward", and "f0.1" of the only one, "f0_1"."""
        own = half[: len(self.id)].replace("_", ".") == self.id
        return f"{self.id} {half[len(self.id) + 1 :] if own else half}".rstrip()

    @property
    def name(self) -> str:
        return self.called or self.title

    @property
    def caches(self) -> tuple[str, ...]:
        """Torch's caches that its code came from, so that most stages did not run."""
        asked = (event.fields for event in self.events if event.kind == "Cache")
        hits = {each.get("cache", "") for each in asked if each.get("state", "").startswith("hit")}
        return tuple(sorted(hits))

    @property
    def operations(self) -> int:
        """Calls in the graph as it was captured."""
        graph = next((stage.graph for stage in self.stages if stage.graph is not None), None)
        return 0 if graph is None else len(graph.calls)


class FailedGuardData(Data, frozen=True):
    """A guard that made a frame compile again, over all compiles of the frame: how many compiles it caused, with
    which values, and what would stop that ("" where nothing is known to). `guard` is its id in the compile `of`;
    `compiles` are those that it caused, perhaps with other guards."""

    frame: str
    expression: str
    times: Whole
    values: tuple[str, ...]
    stops: str = ""
    of: str = ""
    guard: str = ""
    compiles: tuple[str, ...] = ()
    span: SpanData | None = None
    words: str = ""
    """What `expression` asks, in words, where it is not Python as a person writes it."""
    also: Whole = 0
    """Of these compiles, those of which another guard stopped the check first: this one failed as well."""


class ErrorData(Data, frozen=True):
    """An error of a compile (or, with compile "", of the whole): its type, all of its text, and the user's line."""

    compile: str
    title: str
    kind: str
    message: str
    span: SpanData | None = None
    raises: bool = False
    """Whether the program got it; else the frame runs eagerly instead."""
    engine: str = ""
    """Whose compile, or compiled code, raised it; "" where it is the program's own."""


class EagerData(Data, frozen=True):
    """What ran in Python outside graphs: `what` is a function, a continuation, or Python code at a graph break. `calls`
    are ATen calls and `seconds` its time in the call `measured`; None where nobody counted them, and `measured` says
    why. `reached`: whether a call came there at all. `at_break`: it is the code at a graph break."""

    what: str
    why: str
    compile: str = ""
    span: SpanData | None = None
    calls: Whole | None = None
    seconds: float | None = None
    measured: str = ""
    reached: bool = True
    at_break: bool = False


class RaisedData(Data, frozen=True, array_like=True):
    """[call, text]: the number of a call, from 1, that raised, and what."""

    call: Whole
    text: str


class CallsData(Data, frozen=True):
    """Calls of one compiled function of a program that was watched. `seconds` is all that they took; of it, `compiling`
    in compiles and `graphs` in compiled graphs (None where its graphs are older than the watch). `samples` are the
    first calls one by one."""

    function: str
    engine: str
    count: Whole
    seconds: float
    compiling: float
    graphs: float | None
    samples: tuple[float, ...]
    served: tuple[tuple[str, ...], ...] = ()
    """By call, of the first calls: the compiles whose graphs ran in it, or that it made and that have none, apart from
    calls of other functions inside."""
    compiled: tuple[Whole, ...] = ()
    """The numbers, from 1, of those of the first calls in which something was compiled."""
    measured: Whole = 0
    """The number of the call in which it was measured what ran outside graphs, which made it slower; 0 for none."""
    raised: tuple[RaisedData, ...] = ()
    """The first calls that raised."""


class SpeedData(Data, frozen=True):
    """How many times as fast as eager: the ratio of the medians, which is `times`, and an interval from `low` to `high`
    that holds the true one with 95 % confidence. `times` is None where noise hides it, as the text says."""

    text: str = msgspec.field(name="said")
    times: float | None = None
    low: float | None = None
    high: float | None = None


class LaunchData(Data, frozen=True, array_like=True):
    """[compile, half, ids, start, seconds]: a kernel or library call in one call, `start` seconds after that began.
    Where one function runs several kernels there are several ids, separated by ", "."""

    compile: str
    half: str
    ids: str
    start: float
    seconds: float


class CallData(Data, frozen=True):
    """One call on the CPU, of median length among a few, with what it launched, in order. Each launch takes some tenths
    of a microsecond longer than otherwise, for the clock."""

    seconds: float
    launches: Annotated[tuple[LaunchData, ...], at_most(10_000)]


class SamplesData(Data, frozen=True):
    """Seconds of one contestant: "eager", "explorer" or "stock". Spread is the interquartile range. `peak` are the
    most bytes allocated at once during one call, backward included; a memory pool kept between calls counts."""

    name: str
    median: float
    spread: float
    samples: tuple[float, ...]
    compile_seconds: float | None = None
    note: str = ""
    peak: Whole | None = None
    speed: SpeedData | None = None
    call: CallData | None = None
    kept: dict[str, Whole] = {}
    """Of eager: bytes that autograd keeps for the backward, by "FILE:LINE", with " in module NAME" where one of torch's
    modules made it keep them; "" for no line of the program. Each memory counts once, and that of inputs, parameters
    and buffers does not: it is alive anyway."""


class DivergenceData(Data, frozen=True):
    """The first graph node whose value differs from eager's beyond tolerance; the reference is the graph in float64.

    `error` and `eager_error` are the largest distances of the compiled and of eager's value from the reference.
    `error` is None if the compiled value is not finite or has another shape; `eager_error` is None if an operator has
    no float64 form, in which case eager is the reference. `kernel` is the kernel or library call that wrote the value.
    `node` is a node of the captured graph (`fx.add_1`) if a change of the graph itself is wrong. `detail` says what was
    compared. If results differ but no node is at fault, `node` is "" and `detail` says what is known. `engine` is the
    compiler: "explorer" or "stock".
    """

    compile: str
    half: str
    node: str
    kernel: str
    error: float | None
    eager_error: float | None = None
    span: SpanData | None = None
    detail: str = ""
    engine: str = "explorer"


class AccuracyData(Data, frozen=True):
    """How close one `engine` is to eager: the largest absolute and relative error of one output or gradient, `where`:
    the one that is furthest from eager's in units of its tolerance. `first_mismatch` names the first tensor beyond
    tolerance ("" if none is), and `divergence` the first node that differs, if it was searched for. `own_error` and
    `eager_error` are the largest distances of its elements and of eager's from a float64 run of the same call, if one
    was made. `nan`: the first of eager's outputs and gradients with a NaN in it. `opaque`: the first value that cannot
    be compared. `mismatch`: how the first mismatch differs: "elements", "value", or
    "unpaired" where one is missing or has another dtype or device, which no other values explain."""

    largest_absolute: float
    largest_relative: float
    where: str
    first_mismatch: str = msgspec.field(default="", name="first_parting")
    compared: Whole = 0
    divergence: DivergenceData | None = msgspec.field(default=None, name="parting")
    engine: str = "explorer"
    own_error: float | None = None
    eager_error: float | None = None
    nan: str = ""
    opaque: str = ""
    mismatch: str = "elements"


class MachineData(Data, frozen=True):
    """Measured peaks: bytes and floating-point operations a second."""

    name: str
    bytes_per_second: float
    flops_per_second: float


class TimingData(Data, frozen=True):
    """Measurements, compared with eager. There are no contestants where results were compared and nothing was timed."""

    contestants: Annotated[tuple[SamplesData, ...], at_most(100)]
    overhead: float | None = None
    """Seconds of a call outside the kernels."""
    machine: MachineData | None = None
    accuracy: AccuracyData | None = None
    method: str = ""
    stock_accuracy: AccuracyData | None = None
    """Stock's, where both compiled; `accuracy` is then ours."""
    graphs_alone: bool = False
    """The function was not called for timing: its graphs ran one after another on their inputs."""


class CoverageData(Data, frozen=True):
    """ATen calls by where they run, and frames that ran in the interpreter outside graphs."""

    kernel: Whole = 0
    extern: Whole = 0
    view: Whole = 0
    fallback: Whole = 0
    python: tuple[str, ...] = ()


class ReasonData(Data, frozen=True):
    code: str
    title: str
    meaning: str
    hint: str


class ChangeData(Data, frozen=True):
    """What made a function compile again: the guard `guard` of the compile `of` that failed, in words; `was` and `now`
    what it expected and got, where these are values. `span` is the line that made the guard, and `stops` what
    keeps it from failing ("" where nothing is known to). `also`: the check stopped at another one, before this. `of` is
    the earlier compile that was nearest to accepting the call."""

    failure: str = msgspec.field(name="said")
    was: str = ""
    now: str = ""
    of: str = ""
    guard: str = ""
    span: SpanData | None = None
    stops: str = ""
    also: bool = False


class OperatorCheckData(Data, frozen=True):
    """A custom operator, called `calls` times in one eager call of the program: how its fake implementation, which a
    compiler trusts, `differs` from what the real one did."""

    operator: str
    calls: Whole
    differs: tuple[str, ...] = ()


class ServedData(Data, frozen=True):
    """Calls of one function in a row that the same compiles served: numbers `first` to `last`, from 1 (0 where nobody
    counted the calls, or none of them went there). `compiles` ran; `made` are those of them that the first of these
    calls had compiled, because of `changes` (none where there was nothing before). `note` says what else became of the
    calls: that none went there, or what they raised."""

    function: str
    first: Whole
    last: Whole
    compiles: Annotated[tuple[str, ...], at_most(300)]
    made: Annotated[tuple[str, ...], at_most(300)] = ()
    changes: Annotated[tuple[ChangeData, ...], at_most(300)] = ()
    note: str = ""


class PartData(Data, frozen=True):
    """One part of the answer at a glance: a sentence on `what`, and the pane that tells more, of `compile` where it is
    named. `state` is "ok", "attention", "wrong", or "unknown" for what was not measured or compared. `engine` is whose
    it is; "" where it is of the whole."""

    what: str
    text: str = msgspec.field(name="said")
    state: str
    pane: str
    compile: str = ""
    engine: str = ""


class AnswerData(Data, frozen=True):
    """What is asked in a pane of the viewer beside what it draws, and the lines that answer it."""

    pane: str
    title: str
    lines: Annotated[tuple[str, ...], at_most(10_000)]


class RecordData(Data, frozen=True):
    version: Whole
    title: str
    engine: str
    target: str
    created: str
    environment: dict[str, str]
    config: dict[str, str]
    sources: Annotated[tuple[SourceData, ...], at_most(5000)]
    compiles: Annotated[tuple[CompileData, ...], at_most(1000, by="id")]
    coverage: CoverageData
    timing: TimingData | None = None
    result: str = ""
    error: str = ""
    reasons: tuple[ReasonData, ...] = ()
    """The catalogue entries that this record names."""
    notes: Annotated[tuple[str, ...], at_most(200)] = ()
    """What was left out, and why: one sentence each."""
    attempts: Annotated[tuple[CompileData, ...], at_most(300)] = ()
    """Compiles with attempted fixes of graph breaks: they say nothing about the program itself."""
    meanings: dict[str, str] = {}
    """What the instructions (by name) and the operators (by target) in it do, in a few words, where that is known."""
    mnemonics: dict[str, MnemonicData] = {}
    """The machine's instructions in it, by their names in AT&T's syntax; none where it is not x86-64."""
    recompiles: Annotated[tuple[FailedGuardData, ...], at_most(1000)] = ()
    """Most failures first."""
    errors: Annotated[tuple[ErrorData, ...], at_most(300)] = ()
    eager: Annotated[tuple[EagerData, ...], at_most(1000)] = ()
    calls: tuple[CallsData, ...] = ()
    glance: Annotated[tuple[PartData, ...], at_most(100)] = ()
    """What came of it, as view/glance.py puts it into words."""
    answers: Annotated[tuple[AnswerData, ...], at_most(100)] = ()
    """As view/answers.py puts them into words."""
    operators: tuple[OperatorCheckData, ...] = ()
    """Custom operators, where the call could be made once more in eager."""
    history: Annotated[tuple[ServedData, ...], at_most(1000)] = ()
    """The calls of what was compiled more than once, as view/history.py works them out."""
    cut: bool = False
    """Whether it is a part of the record, made to fit into a notebook; a note says what was left out."""


class DiffData(Data, frozen=True):
    """Two records to be shown stage by stage: what an output of type DIFF_MIME holds."""

    before: RecordData
    after: RecordData
