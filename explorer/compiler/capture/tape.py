"""The graph being captured: an FX graph whose values are computed under fake tensors as nodes are added.

Stock counterpart: torch/_dynamo/output_graph.py.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import sympy
import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._guards import Source as TorchSource
from torch._prims_common import make_contiguous_strides_for as contiguous
from torch._subclasses import fake_tensor
from torch.autograd.grad_mode import _unsafe_preserve_version_counter as preserved_version
from torch.fx.experimental import symbolic_shapes
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._sympy import functions as sym

from explorer.compiler.capture import operator_checks as checks
from explorer.compiler.capture import reasons
from explorer.compiler.capture.expressions import function_of
from explorer.compiler.capture.fakes import LaidOut, as_of_real
from explorer.compiler.capture.saved_inputs import recorded
from explorer.core.origin import Origins, origins
from explorer.core.reasons import Unsupported, unsupported
from explorer.ir import graph as nodes
from explorer.ir.bytecode import Span
from explorer.ir.capture import Computed, Input, Inside, Returned, Size, Source, Stride
from explorer.ir.sizes import Operation, Relations, SizeEnv, computed, example_values, is_whole

_INT64 = torch.iinfo(torch.int64)
_SHRINKS = (sym.FloorDiv, sym.PythonMod, sym.Mod)


def stored_elements(tensor: torch.Tensor) -> int:
    """How many elements of the tensor's dtype its storage has."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


class _Name(str):
    """A source's name both as the property that torch 2.13 reads and as the method that older ones call."""

    def __call__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class ShapeSource(TorchSource):
    """Our source in the form that ShapeEnv wants to see; it only prints it."""

    text: str

    @property
    def name(self) -> _Name:
        return _Name(self.text)


@dataclass(frozen=True)
class Place:
    """Where the user's program is, for the nodes made there, and the number of the evaluator's step."""

    span: Span | None
    module: str
    step: int
    checkpoint: int
    """The number of the torch.utils.checkpoint call around it, the outermost; 0 where there is none."""


class Branch:
    """The graph of a function that a higher-order operator calls. `lifted` are the nodes outside of it that it uses,
    and the placeholders that stand for them, `versions` those of the graph's inputs before."""

    def __init__(self, versions: nodes.Versions) -> None:
        self.versions = versions
        self.graph = fx.Graph()
        self.lifted: dict[fx.Node, fx.Node] = {}

    def placeholder(self, node: fx.Node) -> fx.Node:
        if node not in self.lifted:
            with self.graph.inserting_before(next(iter(self.graph.nodes), None)):
                made = self.lifted[node] = self.graph.placeholder(node.name)
            made.meta = dict(node.meta)
        return self.lifted[node]


class Tape:
    """Adds nodes. `dynamic(source, tensor)` says which dims of an input get a symbol instead of a number."""

    def __init__(
        self,
        name: str,
        dynamic: Callable[[Source, torch.Tensor], Sequence[symbolic_shapes.DimDynamic]],
        place: Callable[[], Place],
        scalar_outputs: bool = False,
        dynamic_outputs: bool = False,
        undoes_writes: bool = False,
    ) -> None:
        self.name = name
        self.graph = fx.Graph()
        self.checks_later = False
        """Whether an assertion is checked after the graph."""
        self.runs_again = False
        """Whether the program is run again where the graph is refused: it handles the error, or did more before."""
        self.branches: list[Branch] = []
        """The functions of higher-order operators that are being evaluated, innermost last: nodes go to the last."""
        self.modules: dict[str, fx.GraphModule] = {}
        self.scalar_outputs = scalar_outputs
        self.undoes_writes = undoes_writes
        """Whether a write that a false assertion rules out is undone rather than made after it."""
        self.shape_env = SizeEnv(duck_shape=True, allow_dynamic_output_shape_ops=dynamic_outputs)
        self.shape_env.guards = Relations(self.hints)
        self.mode = LaidOut(shape_env=self.shape_env, allow_non_fake_inputs=False)
        self.inputs: dict[fx.Node, Input] = {}
        self.fakes: dict[Source, fake_tensor.FakeTensor] = {}
        self.reals: dict[Source, torch.Tensor] = {}
        self._versions: dict[Source, int | None] = {}
        self._inside: list[Source] = []
        self.given: dict[int, torch.Tensor] = {}
        """Keyed by id: fake inputs as they were at first, before the program changed their sizes."""
        self.fixed: set[int] = set()
        """Storages that arrays share, which cannot be resized."""
        self.stand_ins: list[tuple[type, fake_tensor.FakeTensor, tuple[str, ...]]] = []
        """For each input of a class of the program: the class, the tensor over the input's memory that the graph takes,
        and its source."""
        self.hooked: dict[fake_tensor.FakeTensor, int | None] = {}
        """Inputs that hooks were registered of, with their versions then."""
        self.symbol_sources: dict[sympy.Symbol, Source] = {}
        self.storage_symbols: dict[sympy.Symbol, Source] = {}
        """How many elements a storage has. They are asked only where sizes or strides change in place."""
        self.symbol_steps: dict[sympy.Symbol, int] = {}
        self._float_symbols: dict[Source, sympy.Symbol] = {}
        self.program_numbers: set[sympy.Symbol] = set()
        """Symbols of the program's integers, which may have any size."""
        self.symbol_nodes: dict[sympy.Symbol, fx.Node] = {}
        self._measured: dict[sympy.Symbol, tuple[fx.Node, int]] = {}
        """Sizes that only the graph knows: the node, and which of its sizes it is."""
        self.shape_guard_causes: list[tuple[Origins, Place, str]] = []
        self.grad_enabled, self.inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        self.calls = 0
        self.whole = ""
        """Why the frame runs eagerly as a whole where a part of it does."""
        self.nodes = 0
        """Nodes that are no placeholders."""
        self._dynamic = dynamic
        self._place = place
        self._names: set[str] = set()
        self._last_input: fx.Node | None = None

    # ------------------------------------------------------------------------------------------------------ inputs

    def refuse_frame(self, why: str, code: str = reasons.UNTRACEABLE_CALL) -> NoReturn:
        """A graph break after which the frame runs eagerly as a whole."""
        self.whole = why
        unsupported(code, why)

    def input(self, source: Source, tensor: torch.Tensor) -> tuple[fx.Node, fake_tensor.FakeTensor]:
        """A placeholder for a tensor that the frame can reach. It is there before any transform begins."""
        with temporarily_clear_interpreter_stack(), as_made(tensor):
            return self._input(source, tensor)

    def _input(self, source: Source, tensor: torch.Tensor) -> tuple[fx.Node, fake_tensor.FakeTensor]:
        if nodes.is_refused(tensor):
            unsupported(reasons.OP_RAISED, f"{source.name} is a view whose base was written since")
        wanted = self._dynamic(source, tensor)
        is_symbolic = any(kind is not symbolic_shapes.DimDynamic.STATIC for kind in wanted)
        base = _base_of(tensor)
        facts: dict[str, Any] = {"static_shapes": True}
        if is_symbolic and (base is None or base.dtype == tensor.dtype):  # other dtypes need known sizes
            facts = {"symbolic_context": symbolic_shapes.StatelessSymbolicContext(list(wanted))}
        with self._before_writes(tensor):
            try:
                fake = self.mode.from_tensor(tensor, source=ShapeSource(source.name), **facts)
            except (RuntimeError, AssertionError) as error:  # its .data was set, so it is no longer a view
                unsupported(reasons.OP_RAISED, f"{source.name} cannot be made again from its base: {error}")
            self._versions[source] = nodes.version(fake)
            given = self.given.setdefault(id(fake), nodes.as_given(fake))
        self._name_symbols(source, fake)  # also if its sizes are fixed: a view of it may have made it before
        self.fakes[source], self.reals[source] = fake, tensor
        if isinstance(source, Inside):
            self._inside.append(source)
        about = "parameter" if isinstance(tensor, torch.nn.Parameter) else ""
        return self._placeholder(source, given, about), fake

    @contextmanager
    def _before_writes(self, tensor: torch.Tensor) -> Iterator[None]:
        """Inside, a view is made that is older than the graph's writes to its base, which autograd may refuse to use
        after them."""
        base = _base_of(tensor)
        alike = (source for source, real in self.reals.items() if base is real or base is real._base)
        first = next(alike, None) if base is not None else None
        if first is None:
            yield
            return
        with preserved_version(self.fakes[first]):
            nodes.set_versions([(self.fakes[first], self._versions[first])])
            yield

    def written_inputs(self) -> list[Source]:
        """The inputs that the graph writes."""
        return [source for source, fake in self.fakes.items() if self._is_written(source, fake)]

    def recorded_inputs(self) -> list[Source]:
        """The written inputs whose writes autograd may record."""
        return [source for source in self.written_inputs() if recorded(self.fakes[source]) is not None]

    def is_as_given(self, fake: object) -> bool:
        """Whether this is an input that the graph has not written."""
        return any(known is fake and not self._is_written(source, fake) for source, known in self.fakes.items())

    def _is_written(self, source: Source, fake: fake_tensor.FakeTensor) -> bool:
        return nodes.version(fake) != self._versions[source] or self.mode.writes(fake) > 0

    def counts_writes(self, source: Source) -> bool:
        """Whether each write of the input changes its version: one of `x.data` does not."""
        before, after = self._versions[source], nodes.version(fake := self.fakes[source])
        return before is not None and after is not None and after - before >= self.mode.writes(fake)

    def version_growth(self, source: Source) -> int | None:
        """The number by which the graph's writes have raised an input's version."""
        before, after = self._versions[source], nodes.version(self.fakes[source])
        return None if before is None or after is None else after - before

    def writes(self) -> int:
        """How often the graph has written inputs so far."""
        return sum((nodes.version(fake) or 0) + self.mode.writes(fake) for fake in self.fakes.values())

    def _writes_since(self, place: int) -> bool:
        """Whether the graph has written inputs since the log of writes was this long."""
        storages = {each.untyped_storage()._cdata for each in self.fakes.values() if each.layout is torch.strided}
        return any(each._cdata in storages for each in self.mode.log[place:])

    def sharing(self, fake: torch.Tensor) -> Iterator[tuple[Source, torch.Tensor, fake_tensor.FakeTensor]]:
        """The inputs whose storage a tensor shares: where from, the real tensor and the fake one."""
        fake = nodes.innermost(fake)
        for source, known in self.fakes.items():
            if torch._C._is_alias_of(fake, known):  # type: ignore[attr-defined]
                yield source, self.reals[source], known

    def _name_symbols(self, source: Source, fake: fake_tensor.FakeTensor) -> None:
        """The source of each new symbol: a size, a stride that no size explains, or the offset into the storage."""
        places: list[tuple[object, Source]] = [(size, Size(source, dim)) for dim, size in enumerate(fake.shape)]
        places += [(stride, Stride(source, dim)) for dim, stride in enumerate(fake.stride())]
        places.append((fake.storage_offset(), Returned(source, "storage_offset")))
        for number, place in places:
            if isinstance(number, torch.SymInt) and isinstance(number.node.expr, sympy.Symbol):
                self._name_symbol(number.node.expr, place)
        held = fake.untyped_storage().nbytes()
        if isinstance(held, torch.SymInt):
            symbol = held.node.expr / fake.element_size()
            if isinstance(symbol, sympy.Symbol):
                self.storage_symbols.setdefault(symbol, Computed(stored_elements, (source,)))

    def _name_symbol(self, symbol: sympy.Symbol, source: Source) -> None:
        self.symbol_sources.setdefault(symbol, source)
        self.symbol_steps.setdefault(symbol, self._place().step)

    def size_input(self, source: Source, value: int) -> torch.SymInt:
        """A symbol for an integer that the frame can reach."""
        named = ShapeSource(source.name)
        made = self.shape_env.create_unspecified_symint_and_symbol(value, named, symbolic_shapes.DimDynamic.DYNAMIC)
        assert isinstance(made, torch.SymInt)
        self._name_symbol(made.node.expr, source)
        self.program_numbers.add(made.node.expr)
        return made

    def float_read(self, fake: fake_tensor.FakeTensor, source: Source, value: float) -> torch.SymFloat:
        """The float that is read from a fake tensor, as a new symbol: tests of it become guards."""
        if source not in self._float_symbols:
            named = ShapeSource(source.name)
            symbol = self.shape_env.create_unspecified_symbol(value, named, symbolic_shapes.DimDynamic.DYNAMIC)
            self._name_symbol(symbol, source)
            self._float_symbols[source] = symbol
        made = self.shape_env.create_symfloatnode(self._float_symbols[source], hint=value)
        assert isinstance(made, torch.SymFloat)
        fake.item_memo = made
        return made

    def _placeholder(self, source: Source, value: object, about: str) -> fx.Node:
        with self._at_inputs():
            node = self.graph.placeholder(self._unique(source.name))
        place = self._place()
        nodes.stamp(node, f"fx.{node.name}", value, span=place.span, about=about or source.name, step=place.step)
        self.inputs[node] = Input(node.name, source, about)
        self._last_input = node
        return node

    def _at_inputs(self) -> Any:
        if self._last_input is not None:
            return self.graph.inserting_after(self._last_input)
        return self.graph.inserting_before(next(iter(self.graph.nodes), None))

    def _unique(self, text: str) -> str:
        text = re.sub(r"_(modules|parameters|buffers)\b", "", text)
        base = re.sub(r"\W+", "_", text).strip("_").lower() or "input"
        if base[0].isdigit():
            base = "_" + base
        name, count = base, 1
        while name in self._names:
            name, count = f"{base}_{count}", count + 1
        self._names.add(name)
        return name

    # ------------------------------------------------------------------------------------------------------- nodes

    def call(self, kind: str, target: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Any:
        """What the call yields of fake tensors. Nothing is added yet: `add` does, where the result needs a node."""
        given = checks.tensors_in((*args, *kwargs.values()))
        fakes = [each for each in given if isinstance(each, fake_tensor.FakeTensor)]
        before = [(each, nodes.version(each)) for each in fakes]
        outs = [each for each in checks.tensors_in(kwargs.get("out")) if each.layout is torch.strided]
        sizes = [(each, each.shape, each.stride()) for each in outs]
        written, drew = len(self.mode.log), self.mode.drew
        others = given if len(fakes) < len(given) else []
        wrappers = [(x, x.shape, x.stride()) for x in others if is_traceable_wrapper_subclass(x)]
        written_ones = [args[place] for place in checks.written_places(target)] if wrappers else []
        if any(x is each and checks.may_fold(x, self._hint) for x, _, _ in wrappers for each in written_ones):
            unsupported(reasons.OVERLAPPING_WRITE, getattr(target, "__name__", str(target)))
        try:
            result = self._call(kind, target, args, kwargs, given)
            for wrapper, shape, stride in wrappers:
                if (wrapper.shape, wrapper.stride()) != (shape, stride) and self._is_given(wrapper):
                    name = getattr(target, "__name__", target)
                    self.refuse_frame(f"{name} of a {type(wrapper).__name__}, which gets other axes or memory")
            for kind_of_input, fake, place in self.stand_ins:
                if checks.lies(fake) != place:
                    name = getattr(target, "__name__", target)
                    self.refuse_frame(f"{name} of a {kind_of_input.__name__}, which gets other axes or memory")
            if self.checks_later and self._writes_since(written):
                if not self.undoes_writes:  # a copy of what is written, at each call
                    unsupported(reasons.DATA_DEPENDENT_BRANCH, "an assertion decides whether the program writes here")
                self.runs_again = True
            return result
        except Unsupported:
            with self.mode, torch.no_grad():
                for each, size, stride in sizes:
                    if each.shape != size:
                        each.as_strided_(size, stride)
            nodes.set_versions(before)  # the writes of the call are not in the graph
            self.mode.forget_writes(written)
            self.mode.drew = drew
            raise

    def _is_given(self, wrapper: torch.Tensor) -> bool:
        """Whether what is inside of a wrapper is an input of the graph."""
        inside = [getattr(wrapper, name) for name in wrapper.__tensor_flatten__()[0]]  # type: ignore[attr-defined]
        return any(part is fake for part in inside for fake in self.fakes.values())

    def _call(
        self, kind: str, target: Any, args: tuple[object, ...], kwargs: Mapping[str, object],
        given: Sequence[torch.Tensor],
    ) -> Any:  # fmt: skip
        function = target if kind == "call_function" else _method(target)
        name = target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)
        if problem := checks.lacks_dimensions(target, given):
            unsupported(reasons.OP_RAISED, f"{name}: {problem}")
        of_levels = map(nodes.innermost, given)
        tensors = [x for x in of_levels if isinstance(x, fake_tensor.FakeTensor) and x.layout is torch.strided]
        before = [nodes.version(each) for each in tensors]
        outs = [
            (each, each.shape, each.layout is torch.strided and checks.may_fold(each, self._hint))
            for each in checks.tensors_in(kwargs.get("out"))
        ]
        inside = checks.Operators() if hasattr(target, "applies") else None
        result = self._computed(target, name, function, args, kwargs, inside)
        if self.hooked and any(
            nodes.version(each) != count or not each.requires_grad for each, count in self.hooked.items()
        ):
            unsupported(reasons.AUTOGRAD_CALL, f"{name} of a tensor that has a new hook")
        changed = [each for each, count in zip(tensors, before, strict=True) if nodes.version(each) != count]
        if changed and torch.is_inference_mode_enabled():  # autograd can say nothing more of views that it recorded
            if any(map(nodes.is_refused, (*changed, *self.fakes.values()))):
                self.refuse_frame(f"{name} in inference mode of a view that requires grad")
        if written := checks.written_by(target, args, kwargs, changed):
            if not changed and not torch.is_inference_mode_enabled():
                torch.autograd.graph.increment_version(written)
            self._check_overlaps(target, args, written, tensors)
        if outs and not isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            self.check_outs(function, args, kwargs, outs)
        is_plain = torch._C._functorch.peek_interpreter_stack() is None
        if not torch.is_grad_enabled() and is_plain and target != "requires_grad_" and "requires_grad" not in kwargs:
            for each in checks.tensors_in(result):  # rules in Python make leaves of what the operator pads or rolls
                if each.requires_grad and not any(each is one for one in given) and not nodes.is_refused(each):
                    if each.is_leaf:
                        each.requires_grad_(False)
        if any(self._is_written(source, self.fakes[source]) for source in self._inside):
            why = "the tensor inside of a wrapper that requires grad is written"  # autograd knows only the wrapper
            self.refuse_frame(why, reasons.TENSOR_SUBCLASS)
        self.shape_env.pending_fresh_unbacked_symbols.clear()
        unknown = _unknown_sizes(result)
        if unknown and not (self.scalar_outputs or self.shape_env.allow_dynamic_output_shape_ops):
            unsupported(reasons.DYNAMIC_OUTPUT, f"{name} yields {unknown}")
        operators = inside.calls if inside is not None else []
        for each, given_args, given_kwargs, made in (*operators, (target, args, kwargs, result)):
            if refused := checks.refused(each, given_args, given_kwargs, made, self._hint):
                if changed:
                    self.whole = "an operator is refused that has changed a tensor"  # the trace's tensor too
                unsupported(reasons.OP_RAISED, f"{getattr(each, '__name__', each)}: {refused}")
        return result

    def _computed(
        self, target: object, name: str, function: Callable[..., object], args: Sequence[object],
        kwargs: Mapping[str, object], inside: AbstractContextManager[object] | None,
    ) -> object:  # fmt: skip
        """What the call yields under fake tensors, within `inside`. What it raises is the reason of a break."""
        outs = (each for each in checks.tensors_in(kwargs.get("out")) if each.layout is torch.strided)
        laid_out = [(each, each.shape, each.stride()) for each in outs]
        try:
            with self.mode, self._dispatcher(), _Quiet(), inside or _NOTHING:
                made = function(*args, **kwargs)
                result = as_of_real(name, made)
                for each, size, stride in laid_out:  # the rule of sort() turns one that is large enough
                    if each.shape == size and each.stride() != stride:
                        with torch.no_grad(), preserved_version(each):
                            each.as_strided_(size, stride)
                return result
        except fake_tensor.DataDependentOutputException as error:
            unsupported(reasons.ITEM, str(error.func))
        except symbolic_shapes.GuardOnDataDependentSymNode as error:
            unsupported(reasons.DYNAMIC_OUTPUT, first_line(error) or str(target))
        except fake_tensor.DynamicOutputShapeException as error:
            unsupported(reasons.DYNAMIC_OUTPUT, str(error.func))
        except fake_tensor.UnsupportedOperatorException as error:
            unsupported(reasons.UNTRACEABLE_CALL, f"{error.func} has no rule for fake tensors")
        except _OF_OPERATORS as error:
            places = checks.written_places(target)
            meant = (each for place in places for each in checks.tensors_in(args[place : place + 1]))
            if any(each._is_view() for each in meant):
                self.whole = "a view is written that may not be"  # a graph would return another tensor
            unsupported(reasons.OP_RAISED, f"{name}: {first_line(error)}")
        finally:
            self.note_shape_guards(f"which way {name} computes depends on it")

    def _check_overlaps(
        self, target: object, args: Sequence[object], written: Sequence[fake_tensor.FakeTensor],
        tensors: Sequence[fake_tensor.FakeTensor],
    ) -> None:  # fmt: skip
        """Refuse a call where elements that it writes share memory."""
        with self.mode:
            roots = [given for each in written for _, _, given in self.sharing(each)]
            overlapping = checks.overlaps(target, args, written, tensors, roots, self._hint)
            if overlapping:
                known = (nodes.info(node).value for node in self.graph.nodes)
                overlapping = not checks.fills(target, args, known, self._hint)
        self.note_shape_guards("whether elements that are written share memory depends on it")
        if overlapping:
            unsupported(reasons.OVERLAPPING_WRITE, getattr(target, "__name__", str(target)))

    def folds(self, tensor: torch.Tensor) -> bool:
        """Whether two elements of a tensor, or of one of those that it is a batch of, may be one place in memory."""
        with self.mode:
            found = checks.may_fold(nodes.innermost(tensor), self._hint)
        self.note_shape_guards("whether elements share memory depends on it")
        return found

    def check_outs(
        self, function: Any, args: Sequence[object], kwargs: Mapping[str, object],
        outs: list[tuple[torch.Tensor, Any, bool]],
    ) -> None:  # fmt: skip
        """Refuse a call that resizes its `out=` otherwise than to new contiguous memory, or whose rule for fake tensors
        leaves the size as it was. `outs` are the tensors, with size and whether elements share memory before."""
        with self.mode:  # what made the tensor yields one of the size that it had
            resized = [(each, size) for each, size, _ in outs if each.shape != size]
            if any(folds and each.shape != size for each, size, folds in outs):
                unsupported(reasons.OP_RAISED, f"{getattr(function, '__name__', function)} into folded memory")
            twins = {id(each): each.detach().as_strided(size, contiguous(size)) for each, size in resized}
        for node in self.graph.nodes:
            if (twin := twins.get(id(nodes.info(node).value))) is not None:
                node.meta[nodes.INFO] = replace(nodes.info(node), value=twin)
        plain = {name: value for name, value in kwargs.items() if name != "out"}
        with self.mode, self._dispatcher(), _Quiet():
            made = checks.tensors_in(function(*args, **plain))
        name, given = getattr(function, "__name__", function), [each for each, _, _ in outs]
        if any(each.shape != result.shape for each, result in zip(given, made, strict=True)):
            unsupported(reasons.UNTRACEABLE_CALL, f"{name} has no rule for fake tensors that resizes its out=")
        if not resized:
            return
        if any(folded for each, _, folded in outs if id(each) in twins):
            unsupported(reasons.OVERLAPPING_WRITE, name)
        if not self.fixed.isdisjoint(each.untyped_storage()._cdata for each, _ in resized):
            self.refuse_frame(f"{name} resizes an out= whose memory is an array's", reasons.OP_RAISED)
        if any(self._has_views(each) for each, _ in resized):
            unsupported(reasons.UNTRACEABLE_CALL, f"{name} resizes an out= that has views, or was made one in place")
        storages = {each.untyped_storage()._cdata for each in given}
        meets = any(each.untyped_storage()._cdata in storages for each in checks.tensors_in(args))
        if meets or not all(each.is_contiguous() for each in made):
            unsupported(reasons.UNTRACEABLE_CALL, f"{name} into an out= that takes another shape and layout")

    def _has_views(self, tensor: torch.Tensor) -> bool:
        """Whether more than the node that made it yields a tensor in its memory."""
        (storage,) = checks.memory_of(tensor)
        return sum(storage in checks.memory_of(nodes.info(node).value) for node in self.graph.nodes) > 1

    def _hint(self, size: int | torch.SymInt) -> int:
        """A size as checks of operators see it: of one that only the graph knows, that it is neither empty nor 1."""
        if isinstance(size, int):
            return size
        found = self.hint(size.node.expr)
        return int(found) if found.is_number else 2

    @contextmanager
    def numbers_read(self) -> Iterator[None]:
        """Inside, numbers that are read from tensors stay in the graph."""
        before, self.scalar_outputs = self.scalar_outputs, True
        try:
            yield
        finally:
            self.scalar_outputs = before

    def _dispatcher(self) -> Any:
        """Operators written in C++ over others see symbolic sizes only through the Python dispatcher."""
        numbers = self.symbol_sources or self.symbol_nodes
        symbolic = numbers or self.scalar_outputs or self.shape_env.allow_dynamic_output_shape_ops
        return enable_python_dispatcher() if symbolic else _NOTHING

    def add(
        self, kind: str, target: object, args: tuple[object, ...], kwargs: Mapping[str, object], value: object
    ) -> fx.Node:
        """The one place where nodes that compute are added."""
        self.calls += 1
        if target is operator.pow and isinstance(args[0], (int, float)):
            target = pow  # FX prints this as a call: -1 ** x would be -(1 ** x)
        return self._stamped(self._create(kind, target, args, kwargs), value)

    def element(self, node: fx.Node, index: int, value: object) -> fx.Node:
        return self._stamped(self._create("call_function", operator.getitem, (node, index)), value)

    def _create(self, kind: str, target: Any, args: tuple[Any, ...], named: Mapping[str, Any] | None = None) -> fx.Node:
        kwargs = dict(named or {})
        if self.branches or self.modules:
            args, kwargs = fx.map_arg((args, kwargs), self.in_branch)
        graph = self.branches[-1].graph if self.branches else self.graph
        return graph.create_node(kind, target, args, kwargs)

    def _stamped(self, node: fx.Node, value: object, about: str = "") -> fx.Node:
        place = self._place()
        self.nodes += 1
        self._note_unbacked(node, value)
        name = f"fx.{node.name}"
        return nodes.stamp(
            node, name, value, span=place.span, module=place.module, about=about, step=place.step,
            checkpoint=place.checkpoint,
        )  # fmt: skip

    def _note_unbacked(self, node: fx.Node, value: object) -> None:
        """Where symbols that no input determines can be read from now on."""
        if isinstance(value, (torch.SymInt, torch.SymFloat)) and isinstance(value.node.expr, sympy.Symbol):
            if symbolic_shapes.free_unbacked_symbols(value):
                self.symbol_nodes.setdefault(value.node.expr, node)
        elif isinstance(value, torch.Tensor) and (self.scalar_outputs or self.shape_env.allow_dynamic_output_shape_ops):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
                    if symbolic_shapes.free_unbacked_symbols(size):
                        self._measured.setdefault(size.node.expr, (node, dim))

    # ---------------------------------------------------------------------------------------------------- branches

    def begin_branch(self) -> Branch:
        """From here nodes belong to a function of a higher-order operator."""
        self.calls += 1
        self.branches.append(Branch([(fake, nodes.version(fake)) for fake in self.fakes.values()]))
        return self.branches[-1]

    def branch_input(self, like: torch.Tensor) -> tuple[fx.Node, fake_tensor.FakeTensor]:
        """An input of the innermost function: a tensor like this one."""
        graph = self.branches[-1].graph
        fake = nodes.as_given(like)
        node = graph.placeholder(f"input_{sum(node.op == 'placeholder' for node in graph.nodes)}")
        nodes.stamp(node, f"fx.{node.name}", fake)
        return node, fake  # type: ignore[return-value]

    def branch_number(self) -> tuple[torch.SymInt, fx.Node]:
        """An input of the innermost function that is an integer, of which nothing is known."""
        graph = self.branches[-1].graph
        number = self.shape_env.create_unbacked_symint()
        self.shape_env.pending_fresh_unbacked_symbols.clear()
        node = graph.placeholder(f"input_{sum(node.op == 'placeholder' for node in graph.nodes)}")
        self._note_unbacked(node, number)
        return number, nodes.stamp(node, f"fx.{node.name}", number)

    def in_branch(self, node: fx.Node) -> fx.Node:
        """The node for this one in the innermost function."""
        graphs = [self.graph, *(branch.graph for branch in self.branches)]
        if node.graph not in graphs:
            unsupported(reasons.HIGHER_ORDER, "a tensor of a function that has returned")
        for branch in self.branches[graphs.index(node.graph) :]:
            node = branch.placeholder(node)
        return node

    def value(self, node: fx.Node) -> object:
        """The node's result under fake tensors."""
        return nodes.info(node).value

    def end_branch(self) -> None:
        nodes.set_versions(self.branches.pop().versions)

    def module(
        self, branch: Branch, inputs: Sequence[fx.Node], lifted: Sequence[fx.Node], outputs: Sequence[fx.Node] | fx.Node
    ) -> fx.Node:
        """A node for the function as a module that takes its inputs and then all of `lifted`."""
        made = fx.Graph()
        values = {node: made.node_copy(node) for node in inputs}
        for outside in lifted:
            placeholder = made.placeholder(outside.name)
            placeholder.meta = dict(outside.meta)
            values[branch.lifted.get(outside, outside)] = placeholder
        for node in branch.graph.nodes:
            if node.op != "placeholder":
                values[node] = made.node_copy(node, values.__getitem__)
        made.output(fx.map_arg(outputs, values.__getitem__))
        held = {str(node.target): self.modules[str(node.target)] for node in made.nodes if node.op == "get_attr"}
        name = f"function_{len(self.modules)}"
        self.modules[name] = fx.GraphModule(held, made, class_name=name)
        return self._stamped(self._create("get_attr", name, ()), None)

    def operate(self, operator: object, args: tuple[Any, ...], operands: Sequence[fx.Node]) -> Any:
        """A higher-order operator's result under fake tensors; differentiable if an operand is."""

        def real(node: fx.Node) -> Any:
            value: object = self.modules[str(node.target)] if node.op == "get_attr" else nodes.info(node).value
            return value.detach() if isinstance(value, torch.Tensor) else value

        with torch.no_grad():
            found = self.call("call_function", operator, fx.map_arg(args, real), {})
        values = [nodes.info(node).value for node in operands]
        sources = [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]
        if not sources or not torch.is_grad_enabled():
            return found
        with self.mode:
            zero: Any = sum(source.sum() * 0 for source in sources)
            return tuple(v + zero.to(v.dtype) if v.is_floating_point() else v for v in found)

    def row(self, value: torch.Tensor) -> torch.Tensor:
        with self.mode:
            return value[0]

    def scalar(self, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        with self.mode:
            made = like.new_zeros((), dtype=dtype)
            return made.requires_grad_(like.requires_grad and dtype.is_floating_point)

    def note_shape_guards(self, why: str) -> None:
        """Remember what caused the shape guards that were added since this was asked last."""
        new = len(self.shape_env.guards) - len(self.shape_guard_causes)
        if new:
            self.shape_guard_causes += [(origins(), self._place(), why)] * new

    # ------------------------------------------------------------------------------------------------------- sizes

    def size_argument(self, size: torch.SymInt | torch.SymFloat | torch.SymBool) -> fx.Node | int | float | bool:
        """The graph's form of a symbolic size: a placeholder for a symbol, operator nodes for an expression."""
        expr = size.node.expr
        self.hold_in_64_bits(expr)
        if expr.is_integer and not is_whole(expr) and (source := self.source_of(expr)) is not None:
            return self._number_input(expr, source)  # Python computes it, floats and all, when the frame is entered
        try:
            made: fx.Node | int | float | bool = computed(expr, self._symbol_node, self._size_call)
            return made
        except KeyError:
            unsupported(reasons.OPERATION, f"the size expression {size}")

    def hold_in_64_bits(self, expr: sympy.Expr) -> None:
        """Guard what generated code computes of the program's integers, which have no limit in Python."""
        if not expr.is_integer or expr.free_symbols.isdisjoint(self.program_numbers):
            return
        for part in sympy.postorder_traversal(expr):
            grows = part.is_integer and not isinstance(part, _SHRINKS)
            if not grows or part.free_symbols.isdisjoint(self.program_numbers):
                continue
            try:
                fits = self.shape_env.evaluate_expr(sympy.Le(sympy.Abs(part), _INT64.max))
            except RecursionError:  # torch's bounds of a power
                fits = False
            if not fits:
                unsupported(reasons.OPERATION, f"{part}, which is not a 64-bit integer")
        self.note_shape_guards("generated code computes it in 64 bits")

    def source_of(self, expr: sympy.Expr) -> Source | None:
        """The source of a number that is an expression of inputs, read or computed when the frame is entered."""
        if expr in self.symbol_sources:
            return self.symbol_sources[expr]
        symbols = sorted(expr.free_symbols, key=str)
        if not symbols or any(symbol not in self.symbol_sources for symbol in symbols):
            return None
        return Computed(function_of(expr, symbols), tuple(self.symbol_sources[symbol] for symbol in symbols))

    def _symbol_node(self, symbol: sympy.Symbol) -> fx.Node:
        if symbol not in self.symbol_nodes and symbol in self._measured:
            value = self.shape_env.create_symintnode(symbol, hint=None)
            made = self._create("call_function", torch.ops.aten.sym_size.int, self._measured[symbol])
            self.symbol_nodes[symbol] = self._stamped(made, value, "size")
        if symbol not in self.symbol_nodes:
            if symbol not in self.symbol_sources:
                unsupported(reasons.DYNAMIC_OUTPUT, f"the size {symbol} has no source")
            self._number_input(symbol, self.symbol_sources[symbol])
        return self.symbol_nodes[symbol]

    def _number_input(self, expr: sympy.Expr, source: Source) -> fx.Node:
        if expr not in self.symbol_nodes:
            value = self.shape_env.create_symintnode(expr, hint=int(self.hint(expr)))
            self.symbol_nodes[expr] = self._placeholder(source, value, "size")
        return self.symbol_nodes[expr]

    def _size_call(self, function: Operation, args: Sequence[object]) -> object:
        value = function(*(nodes.info(arg).value if isinstance(arg, fx.Node) else arg for arg in args))
        if not any(isinstance(arg, fx.Node) for arg in args):
            return value
        return self._stamped(self._create("call_function", function, tuple(args)), value, "size")

    def hint(self, expr: sympy.Expr) -> Any:
        """The value of a size expression for the inputs that were traced."""
        return expr.xreplace(self.hints)

    @property
    def hints(self) -> Mapping[sympy.Symbol, Any]:
        return example_values(self.shape_env)

    def finish(self, outputs: Sequence[fx.Node | int | None]) -> nodes.Graph:
        self.graph.output(tuple(outputs))
        for node, given in self.inputs.items():
            if isinstance(before := self._versions.get(given.source), int):
                nodes.restamp(node, writes=self.fakes[given.source]._version - before)
        return nodes.Graph(self.name, self.graph, self.mode, dict(self.modules), self.grad_enabled)


def as_made(tensor: torch.Tensor) -> Any:
    """Inside, inference tensors are made only where this is one: writes of others are counted in inference mode too."""
    outside = torch.is_inference_mode_enabled() and not tensor.is_inference()
    return torch.inference_mode(False) if outside else nullcontext()


def _unknown_sizes(result: object) -> str:
    """The symbols that no input determines among the numbers and sizes of a result."""
    if isinstance(result, (tuple, list)):
        return next(filter(None, map(_unknown_sizes, result)), "")
    numbers = result.shape if isinstance(result, torch.Tensor) else (result,)
    symbolic = [n for n in numbers if isinstance(n, (torch.SymInt, torch.SymFloat, torch.SymBool))]
    return next((str(n) for n in symbolic if symbolic_shapes.free_unbacked_symbols(n)), "")


_REPORTS = logging.getLogger("torch._subclasses.fake_tensor")


class _Quiet:
    """Fake tensors log each error that an operator raises; here it becomes a break, and is the record's."""

    def __enter__(self) -> None:
        self._before, _REPORTS.disabled = _REPORTS.disabled, True

    def __exit__(self, *error: object) -> None:
        _REPORTS.disabled = self._before


_NOTHING = nullcontext()


def _method(name: str) -> Callable[..., Any]:
    def call(self: object, *args: object, **kwargs: object) -> object:
        return getattr(self, name)(*args, **kwargs)

    return call


_OF_OPERATORS = (ArithmeticError, RuntimeError, TypeError, ValueError, LookupError, AssertionError, AttributeError)
"""What operators raise for arguments that they do not take."""


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]


def _base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The base of a view; None for inference tensors, which have no base."""
    return tensor._base if tensor._is_view() and not tensor.is_inference() else None
