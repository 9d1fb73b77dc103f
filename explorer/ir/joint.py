"""The traced graph and its halves, and typed facts about what each of their inputs and outputs is.

AOTAutograd: descriptors.py and schemas.py (ViewAndMutationMeta, OutputAliasInfo).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from explorer.core.origin import Origins
from explorer.core.reasons import Why
from explorer.core.text import Line, Text, count
from explorer.ir.graph import Graph, describe, info
from explorer.ir.program import Program
from explorer.ir.sizes import Assumed

# What a graph input is.


@dataclass(frozen=True, slots=True)
class Primal:
    """Input number `index` of the captured graph."""

    index: int

    def __str__(self) -> str:
        return f"input {self.index}"


@dataclass(frozen=True, slots=True)
class Tangent:
    """The gradient that flows into forward output number `output`, laid out as the traced placeholder says."""

    output: int

    def __str__(self) -> str:
        return f"gradient of forward output {self.output}"


@dataclass(frozen=True, slots=True)
class SavedValue:
    """A value that the forward half left for the backward half: the node `id` of the joint graph."""

    id: str

    def __str__(self) -> str:
        return f"saved {self.id}"


GraphInput = Primal | Tangent | SavedValue

# What a graph output is.


@dataclass(frozen=True, slots=True)
class Result:
    """What the captured graph returns at `index`."""

    index: int

    def __str__(self) -> str:
        return f"result {self.index}"


@dataclass(frozen=True, slots=True)
class Base:
    """A tensor that several results are views of; they are rebuilt from it so that they share its memory."""

    results: tuple[int, ...]

    def __str__(self) -> str:
        return f"base of results {', '.join(map(str, self.results))}"


@dataclass(frozen=True, slots=True)
class NewValue:
    """What input `index` holds after the call; copied into it outside the graph, where autograd sees the copy."""

    index: int

    def __str__(self) -> str:
        return f"new value of input {self.index}"


@dataclass(frozen=True, slots=True)
class GradientOf:
    """The gradient of input `index`."""

    index: int

    def __str__(self) -> str:
        return f"gradient of input {self.index}"


GraphOutput = Result | Base | NewValue | GradientOf | SavedValue

# How the caller gets what the captured graph returns.


@dataclass(frozen=True, slots=True)
class FromGraph:
    """Output number `output` of the forward graph."""

    output: int

    def __str__(self) -> str:
        return f"forward output {self.output}"


@dataclass(frozen=True, slots=True)
class FromInput:
    """Input number `index` itself."""

    index: int

    def __str__(self) -> str:
        return f"input {self.index}"


@dataclass(frozen=True, slots=True)
class ViewStep:
    """One recorded view operation. Sizes among the arguments are numbers or sympy expressions.

    `item` picks one of several results (split). `grad_enabled` is the grad mode it ran under. `call` names the call
    that it repeats: steps of one name on one base are taken once.
    """

    target: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    item: int | None
    grad_enabled: bool
    call: str

    def __str__(self) -> str:
        arguments = [*map(str, self.args), *(f"{name}={value}" for name, value in self.kwargs.items())]
        item = "" if self.item is None else f"[{self.item}]"
        return f"{self.target.__name__.partition('.')[0]}({', '.join(arguments)}){item}"


@dataclass(frozen=True, slots=True)
class FromView:
    """A view, replayed on `base` so that it shares the base's memory and autograd sees a view."""

    base: FromGraph | FromInput
    steps: tuple[ViewStep, ...]

    def __str__(self) -> str:
        return ".".join([str(self.base), *map(str, self.steps)])


@dataclass(frozen=True, slots=True)
class SameAs:
    """The very object returned at an earlier `index`."""

    index: int

    def __str__(self) -> str:
        return f"result {self.index} again"


@dataclass(frozen=True, slots=True)
class PlainConstant:
    """A number, string or None known when compiling."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


Returned = FromGraph | FromInput | FromView | SameAs | PlainConstant

# What the call does to its inputs.


@dataclass(frozen=True, slots=True)
class Mutation:
    """Input `index` is written: from the NewValue at forward output `output`, by a copy that autograd sees; where that
    is None by a trailing `aten.copy_` of the graph, unseen by autograd."""

    index: int
    output: int | None = None

    def __str__(self) -> str:
        where = "inside the graph" if self.output is None else f"after the graph, from forward output {self.output}"
        return f"input {self.index} is written {where}"


@dataclass(frozen=True, slots=True)
class Restride:
    """Input `index` changes its size or strides in place (`t_`, `unsqueeze_`); numbers or sympy expressions. `offset`
    is by how much its first element moves.

    `seen` says whether autograd records the change, `resized` whether its memory grows or shrinks (`out=` of another
    shape). `calls` are the program's methods and their arguments, whose names the grad_fn has; empty where autograd
    records none or they depend on sizes.
    """

    index: int
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    seen: bool
    resized: bool = False
    calls: tuple[tuple[str, tuple[object, ...], Mapping[str, object]], ...] = ()

    def moves_first(self, target: torch.Tensor) -> bool:
        """Whether the input changes before the graph runs. Axes that autograd does not see wait: the grad_fn has the
        old ones."""
        return not self.resized and (self.seen or not target.requires_grad)

    def __str__(self) -> str:
        return f"input {self.index} becomes size {self.size} strides {self.stride}"


@dataclass(frozen=True)
class Signature:
    """What each input and output of the traced graph is, and how the captured graph's calling convention comes back.

    `inputs` and `outputs` go with the traced graph's placeholders and outputs, one for one. Forward outputs come
    before gradients.
    """

    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    returned: tuple[Returned, ...]
    mutations: tuple[Mutation, ...] = ()
    versions: Mapping[int, int] = field(default_factory=dict)
    """By how much the version of each input that is written or changes its axes grows: once with each write of the
    program, and not where it is written through `x.data`, or by an operator that does not say so."""
    restrides: tuple[Restride, ...] = ()
    repeats: Mapping[int, int] = field(default_factory=dict)
    """Inputs that are the very tensor of an earlier input."""
    differentiable: tuple[bool, ...] = ()
    """Per forward output: whether gradients flow into it."""
    symbols: Mapping[Any, tuple[int, Any, int]] = field(default_factory=dict)
    """Where each size symbol is read at run time: the input, the operator that reads it, and the dimension."""

    @property
    def forward_outputs(self) -> tuple[GraphOutput, ...]:
        return tuple(output for output in self.outputs if not isinstance(output, GradientOf))

    @property
    def written(self) -> frozenset[int]:
        """Indices of the inputs that the call writes."""
        return frozenset(mutation.index for mutation in self.mutations)

    def lines(self) -> list[Line]:
        stays = ["" if self.versions[mutation.index] else ", its version stays" for mutation in self.mutations]
        made = [Line(f"  {mutation}{stay}") for mutation, stay in zip(self.mutations, stays, strict=True)]
        made += [Line(f"  {restride}") for restride in self.restrides]
        made += [Line(f"  input {again} is input {first}") for again, first in self.repeats.items()]
        made += [Line(f"  returns {index}: {returned}") for index, returned in enumerate(self.returned)]
        return made


@dataclass(frozen=True, slots=True)
class GradFn:
    """A node of eager's autograd graph: `name` is its class, `inputs` the ids its gradients flow to.

    `origins` are the captured nodes whose forward made it. `saves`: it keeps tensors, so it runs once unless the graph
    is retained. `outputs` are the forward outputs among those, by index, and `given` the inputs: writing one before the
    node runs is an error, and writing what no node that runs keeps is none.
    `results`: how many gradients it takes.
    """

    id: str
    name: str
    origins: Origins
    inputs: tuple[str, ...]
    saves: bool = False
    outputs: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    results: int = 1


@dataclass(frozen=True)
class GradFnGraph:
    """Eager's autograd graph as it stood before the backward was traced, outputs first; empty in inference.

    `heads` are the ids of the nodes at which the tangents arrive, in their order; `edges` those at which the gradients
    of inputs leave, by the input's index, and `results` those at which the gradients of results arrive that the caller
    gets as tensors of the graph or as views of such, by the result's index. `viewed` are the inputs of which a
    view is saved, which keeps the data that they have then.
    """

    nodes: tuple[GradFn, ...] = ()
    heads: tuple[str, ...] = ()
    edges: Mapping[int, str] = field(default_factory=dict)
    results: Mapping[int, str] = field(default_factory=dict)
    viewed: frozenset[int] = frozenset()

    def text(self) -> Text:
        lines = [
            Line(f"  {node.id}: {node.name} -> {', '.join(node.inputs) or 'nothing'}", node.id, node.origins)
            for node in self.nodes
        ]
        return Text((Line("eager's autograd graph:"), *lines))


@dataclass(frozen=True)
class Traced:
    """The captured graph as functional ATen operations. `forward` is the inference graph, or the joint one.

    `captured` is what it was traced from: the rejoined call runs it where inputs overlap in memory unexpectedly.
    """

    forward: Graph
    is_inference: bool
    signature: Signature
    captured: Graph
    eager_backward: GradFnGraph = GradFnGraph()

    def text(self) -> Text:
        kind = "inference" if self.is_inference else "joint forward and backward"
        return Text((Line(f"# {kind}"), *self.forward.text().lines, *self.signature.lines()), "python")


@dataclass(frozen=True, slots=True)
class Saved:
    """How the backward gets a forward value that it needs. `bytes` by size hints.

    "saved": the forward half returns it; "input": it is an input and is alive anyway; "recomputed": the backward
    half computes it again.
    """

    id: str
    kind: Literal["saved", "input", "recomputed"]
    bytes: int
    why: Why
    origins: Origins = ()


@dataclass(frozen=True)
class Partitioned:
    """The halves of a joint graph. The forward half's outputs are the signature's forward outputs, then what is kept
    and is no output already. The backward half's inputs are what `backward_inputs` says (tensors of the forward, its
    sizes, gradients); its outputs are the gradients that `signature.outputs` ends with.
    """

    forward: Graph
    backward: Graph
    saved: tuple[Saved, ...]
    signature: Signature
    backward_inputs: tuple[GraphInput, ...]
    kept_at: Mapping[str, int]
    """For each Kept id the forward half's output that holds it."""
    captured: Graph
    eager_backward: GradFnGraph = GradFnGraph()

    def text(self) -> Text:
        groups = {kind: [s for s in self.saved if s.kind == kind] for kind in ("input", "saved", "recomputed")}
        lines = []
        for kind, members in groups.items():
            lines.append(Line(f"{kind}: {count(len(members), 'value')}, {sum(s.bytes for s in members):,} bytes"))
            lines += [Line(f"  {s.id} ({s.bytes:,} bytes): {s.why}", "", (s.id,)) for s in members]
        return Text((*lines, *self.forward.text().lines, *self.backward.text().lines), "python")


@dataclass(frozen=True)
class Halves:
    """A traced or partitioned graph with its halves built: what REJOIN takes. `backward` is None in inference."""

    plan: Traced | Partitioned
    forward: Program
    backward: Program | None


@dataclass(frozen=True)
class Compiled:
    """A compiled graph: `call` has the calling convention of the captured graph (flat inputs to flat tuple), with
    mutations written back, aliased outputs rebuilt and autograd connected. `plan` is what the halves were built for;
    None where eager or foreign kernels run."""

    name: str
    call: Callable[..., tuple[Any, ...]]
    halves: tuple[Program, ...]
    description: Text
    plan: Traced | Partitioned | None = None
    fallback: Why | None = None
    """Why the graph runs eagerly instead, where it does."""
    assumed: tuple[Assumed, ...] = ()
    """What it relies on about sizes, beyond what the capture does."""

    def text(self) -> Text:
        return self.description


def placeholder_line(graph: Graph, index: int) -> str:
    """One input as a person reads it: its name and type."""
    node = graph.inputs[index]
    return f"{node.name}: {describe(info(node).value)}"
