"""TRACE: the captured graph run once without data, forward and backward, and written down as functional ATen.

Each captured node runs on tensors that functionalisation (torch's, in C++) strips of mutation and that autograd
records; the tape below them writes what reaches it. AOTAutograd: graph_capture.py and collect_metadata_analysis.py,
which trace twice; here one run yields the facts and the graph.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher, no_python_dispatcher
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._python_dispatch import _disable_current_modes, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from explorer.compiler.autograd import aliases, reasons
from explorer.compiler.autograd.aliases import AsCaptured, FinalTensor, overlapping, place
from explorer.compiler.autograd.decompositions import EXACTLY, INEXACT
from explorer.compiler.autograd.grad_functions import ACCUMULATION, Attribution, record
from explorer.compiler.autograd.layouts import SizeNodes, Symbolic, expression, laid_out_as, places, same_strides
from explorer.compiler.autograd.tape import JointTape, has_memory, is_plain, not_functional, root
from explorer.core.origin import origin, synthetic
from explorer.core.reasons import Unsupported, Why
from explorer.ir import joint
from explorer.ir.graph import Graph, NodeInfo, aten_operator, info, is_in_place, is_refused, needed_by, storage_of
from explorer.ir.settings import ENTER_INFERENCE_MODE, hooks_not_counted, kept

aten = torch.ops.aten
NO_DATA = (DataDependentOutputException, DynamicOutputShapeException)


def trace(captured: Graph) -> joint.Traced:
    """Trace `captured` to ATen: the joint graph where a result or a written input requires grad, else the forward.

    Raises Unsupported for what cannot be traced; the graph then runs eagerly.
    """
    refuse(captured)
    tracer = JointTracer(captured)
    with tracer.functional():
        results = tracer.forward()
        with origin(synthetic("memory that results share")):
            return tracer.finish(results)


def _made_outside_inference(captured: Graph) -> str:
    """The name of a result in new memory that is no inference tensor: what torch.func derives in inference mode."""
    values = [info(node).value for node in captured.inputs]
    given = {storage_of(x) for x in values if isinstance(x, Tensor) and is_plain(x)}
    made = (node for node in captured.outputs if isinstance(node, fx.Node) and isinstance(info(node).value, Tensor))
    normal = (node for node in made if is_plain(x := info(node).value) and not x.is_inference())
    return next((node.name for node in normal if storage_of(info(node).value) not in given), "")


def refuse(captured: Graph) -> None:
    """Raise Unsupported for graphs that the walk cannot run."""
    if torch.is_inference_mode_enabled() and (name := _made_outside_inference(captured)):
        raise Unsupported(Why(reasons.NOT_FUNCTIONAL, f"{name} is no inference tensor"))
    for node in captured.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator) or node.op == "call_module":
            raise Unsupported(Why(reasons.HIGHER_ORDER, str(node.target)))
        if any(map(is_traceable_wrapper_subclass, tree_leaves(info(node).value if node.op != "output" else ()))):
            raise Unsupported(Why(reasons.TENSOR_KIND, f"{node.name} is a tensor around others"))
        if is_unbacked(node):
            where = info(node).span
            line = f" (line {where.line})" if where is not None else ""
            what = f"{node.name}{line} yields it"
            raise Unsupported(Why(reasons.DATA_DEPENDENT, what))
        if node.target in (setattr, ENTER_INFERENCE_MODE):
            raise Unsupported(Why(reasons.NOT_FUNCTIONAL, node.name))
        if fills_with_gradient(node):
            what = f"the gradient of the value of {node.name} counts each index once"
            raise Unsupported(Why(reasons.DATA_DEPENDENT, what))
        if node.op == "placeholder" and isinstance(value := info(node).value, Tensor):
            if type(value) is not FakeTensor or not is_plain(value):
                raise Unsupported(Why(reasons.TENSOR_KIND, f"{node.name} is a {type(value).__name__}, {value.layout}"))
            if aliases.is_lazy(value):
                raise Unsupported(Why(reasons.LAZY_BIT, node.name))


def only_eager(captured: Graph) -> Why | None:
    """Why the graph runs eagerly whatever compiles it: it gives a tensor other memory, which backends do to a copy of
    it, it takes parts of a tensor that no schema calls views, it makes a view that autograd refuses to use after a
    write of its base, or it returns a leaf made inside, or what was computed from one, which none gives back."""
    if captured.eager is not None:
        return captured.eager
    for node in captured.graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.target in (setattr, ENTER_INFERENCE_MODE) or name.startswith(("unsafe_", "set_.")):
            return Why(reasons.NOT_FUNCTIONAL, node.name)
        if node.op != "output" and any(map(is_refused, in_memory(node))):
            return Why(reasons.NOT_FUNCTIONAL, f"{node.name}, whose base is written later")
    if taken := views_without_grad(captured):
        return Why(reasons.NOT_FUNCTIONAL, f"{taken[0].name}, which requires grad as the base of an input does")
    if not (leaves := new_leaves(captured)):
        return None
    memory = [storage_of(value) for each in captured.inputs for value in in_memory(each)]
    values = {node: in_memory(node) for node in captured.graph.nodes if node.op != "output"}
    written = [  # a leaf in an input's memory, as a view of a parameter is without grad, leaves the input as it is
        node for node, found in values.items()
        if any(storage_of(value) in memory for value in found) and not any(id(value) in leaves for value in found)
    ]  # fmt: skip
    left = [node for node in captured.outputs if isinstance(node, fx.Node)]
    reached = next((node for node in (*written, *left) if reaches(tree_leaves(info(node).value), leaves)), None)
    return None if reached is None else Why(reasons.NEW_LEAF, str(reached))


def views_without_grad(captured: Graph) -> list[fx.Node]:
    """What takes a view, without grad, of an input that is a view and requires grad."""
    given = [value for node in captured.inputs for value in in_memory(node)]
    memory = {storage_of(value) for value in given if value.requires_grad and value._is_view()}
    made = (node for node in captured.graph.nodes if memory and node.op.startswith("call"))
    views = ((node, value) for node in made for value in in_memory(node) if value._is_view() and value.grad_fn is None)
    return [node for node, value in views if storage_of(value) in memory]


def in_memory(node: fx.Node) -> list[Tensor]:
    """The tensors that the node yields, without those of a transform's level, which have no memory of their own."""
    return list(filter(has_memory, tree_leaves(info(node).value)))


def new_leaves(captured: Graph) -> dict[int, Tensor]:
    """The leaves made inside, by id. What only calls that write yield, in memory of a leaf, is an input."""
    leaves = {
        node: [value for value in in_memory(node) if value.requires_grad and value.is_leaf]
        for node in captured.graph.nodes if node.op not in ("get_attr", "output")
    }  # fmt: skip
    inputs = {storage_of(value) for node in captured.inputs for value in leaves.pop(node)}
    return {
        id(value): value for node, found in leaves.items() for value in found
        if not aliases.writes(node) or turns(node) or storage_of(value) not in inputs
    }  # fmt: skip


def turns(node: fx.Node) -> bool:
    """Whether a captured call changes the shape or strides of its argument, as torch's tag of an operator says."""
    operator = aten_operator(getattr(node.target, "__name__", str(node.target)))
    return operator is not None and any(
        torch.Tag.inplace_view in getattr(operator, each).tags for each in operator.overloads()
    )


def reaches(values: list[object], leaves: Mapping[int, Tensor]) -> bool:
    """Whether a gradient of these values arrives at one of the leaves; or nowhere, as that of a view without grad."""
    tensors = [value for value in values if isinstance(value, Tensor) and value.requires_grad]
    pending = [value.grad_fn for value in tensors if value.grad_fn is not None]
    seen = set(pending)
    while pending:
        function = pending.pop()
        variable = getattr(function, "variable", None)
        if id(variable) in leaves or variable is None and not any(each for each, _ in function.next_functions):
            return True
        following = {each for each, _ in function.next_functions if each is not None} - seen
        seen |= following
        pending += following
    return any(id(value) in leaves for value in tensors)


def is_unbacked(node: fx.Node) -> bool:
    """Whether a size or number that the node yields is determined by no input of the graph."""
    if node.op == "output":
        return False
    values = info(node).value
    for value in values if isinstance(values, (tuple, list)) else (values,):
        numbers = value.shape if isinstance(value, Tensor) else (value,)
        if any(isinstance(n, Symbolic) and free_unbacked_symbols(n) for n in numbers):
            return True
    return False


class JointTracer:
    """The state of one trace. `inputs` and `constants` are functional tensors, updated in place by the walk."""

    def __init__(self, captured: Graph) -> None:
        self.captured = captured
        self.graph = fx.Graph()
        facts: Mapping[str, NodeInfo] = {info(n).id: info(n) for n in captured.graph.nodes if n.op != "output"}
        self.tape = JointTape(self.graph, captured.fake_mode, facts)
        self.attribution = Attribution()
        self.values: dict[fx.Node, Any] = {}
        self.placeholders: list[fx.Node] = []
        self.inputs: dict[int, Tensor] = {}
        self.edges: dict[int, Any] = {}
        self.first_grad_fn: dict[int, Any] = {}
        self.repeats: dict[int, int] = {}
        self.constants: dict[str, Tensor] = {}
        self.autocasts: list[torch.autocast] = []
        self.inference = torch.is_inference_mode_enabled()
        """Nothing is recorded in it, whatever the grad mode is, but at levels of torch.func's transforms."""
        self.has_writes = False
        self.of_data: set[fx.Node] = set()
        """What is `x.data`, or a view of such."""
        self.inexact: set[fx.Node] = set()
        """Views that torch's functionalization writes back inexactly."""

    @contextlib.contextmanager
    def functional(self) -> Iterator[None]:
        """Fake tensors, the tape and functionalisation on; the caller's settings and inference mode restored."""
        with contextlib.ExitStack() as stack:
            if self.inference:
                stack.enter_context(torch.inference_mode(False))
            stack.enter_context(kept())
            stack.enter_context(hooks_not_counted())
            stack.enter_context(self.captured.fake_mode)
            self.place_inputs()
            stack.enter_context(self.tape)
            stack.enter_context(enable_python_dispatcher())
            torch._enable_functionalization(reapply_views=True)
            stack.callback(torch._disable_functionalization)
            torch._C._set_grad_enabled(self.captured.grad_enabled and not self.inference)
            stack.callback(self.leave_autocasts)
            yield

    def leave_autocasts(self) -> None:
        """Exit what a failed walk had entered: a nesting count left too high would keep autocast's cache for good."""
        for entered in reversed(self.autocasts):
            entered.__exit__(None, None, None)

    # The forward.

    def place_inputs(self) -> None:
        """A placeholder and a functional tensor for each captured input; the very same tensor twice is one."""
        first: dict[int, int] = {}
        for index, node in enumerate(self.captured.inputs):
            value = info(node).value
            with origin(info(node).id):
                placeholder = self.graph.placeholder(node.name)
                inner = value.detach() if isinstance(value, Tensor) else value
                self.tape.stamp(placeholder, inner)
            self.placeholders.append(placeholder)
            if isinstance(value, Tensor):
                if id(value) in first:
                    self.repeats[index] = first[id(value)]
                    self.values[node] = self.inputs[first[id(value)]]
                    continue
                first[id(value)] = index
                self.tape.bind(inner, placeholder)
                self.values[node] = self.inputs[index] = self.input(index, value, inner)
            else:
                self.values[node] = value
        self.tape.sizes = SizeNodes(self.graph, self.placeholders)

    def input(self, index: int, value: Tensor, inner: Tensor) -> Tensor:
        """`inner` as a functional tensor with the autograd state of `value`, and the edge its gradient arrives at."""
        made = torch._to_functional_tensor(inner)
        if isinstance(value, torch.nn.Parameter):  # a torch.autograd.Function that is run may ask
            made.__class__ = torch.nn.Parameter
        if value.requires_grad:
            if made.is_inference():
                raise Unsupported(Why(reasons.TENSOR_KIND, "an inference tensor that requires grad"))
            if value.is_leaf:
                made.requires_grad_()
            else:
                torch._mirror_autograd_meta_to(value, made)  # type: ignore[attr-defined]
            self.edges[index] = torch.autograd.graph.get_gradient_edge(made)
        self.first_grad_fn[index] = made.grad_fn
        return made

    def forward(self) -> list[Any]:
        """Run the captured nodes in order; the values that the graph returns."""
        for node in self.captured.graph.nodes:
            if node.op == "placeholder" or node.op == "output":
                continue
            with origin(info(node).id):
                self.values[node] = self.constant(node) if node.op == "get_attr" else self.run(node)
        return [self.result(v) if isinstance(v, fx.Node) else v for v in self.captured.outputs]

    def result(self, node: fx.Node) -> Any:
        """What `node` yields, brought up to date with writes through its aliases."""
        value = self.values[node]
        with origin(info(node).id):
            if isinstance(value, Tensor):
                self.live(value)
            elif isinstance(value, Symbolic):
                self.size_node(value)
        return value

    def run(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        if node.op == "call_method" and is_in_place(str(node.target)):
            self.check_in_place(node)
            self.check_draw_order(node, args[0])
        if self.inference and node.target is torch._C._set_grad_enabled:
            if not torch._C._are_functorch_transforms_active():
                return None
        leaves = [(each, value) for each in node.all_input_nodes for value in tree_leaves(self.values[each])]
        given = [(each, value) for each, value in leaves if isinstance(value, Tensor)]
        before = [(value, value._version, value.shape) for _, value in given]
        inexact = [(value, content(value)) for each, value in given if each in self.inexact]
        traced = len(self.graph.nodes)
        self.has_writes = self.has_writes or kwargs.get("out") is not None
        try:
            if kwargs.get("out") is not None:
                result = self.written_out(node, args, {**kwargs})
            elif node.target == "item" and isinstance(number := info(node).value, torch.SymFloat):
                result = self.tape.read(content(given[0][1]), number)  # by the symbol of the program's float
            elif node.op == "call_method":
                result = getattr(args[0], node.target)(*args[1:], **kwargs)  # type: ignore[arg-type]
            elif decomposes_inexactly(node):
                with no_python_dispatcher():  # which would break it up above the tape
                    result = node.target(*args, **kwargs)  # type: ignore[operator]
            elif (exactly := EXACTLY.get(node.target)) is not None:
                result = exactly(node.target, *args, **kwargs)
            else:
                result = node.target(*args, **kwargs)  # type: ignore[operator]
        except Unsupported:
            raise
        except NO_DATA as error:
            raise Unsupported(Why(reasons.DATA_DEPENDENT, f"{node.name}: {error}")) from error
        except Exception as error:  # whatever the operators raise, eager raises for the user
            raise Unsupported(Why(reasons.TRACE_FAILED, f"{node.name}: {type(error).__name__}: {error}")) from error
        if any(content(value) is not was for value, was in inexact):  # a write to a list of tensors counts no version
            raise Unsupported(Why(reasons.OVERLAPPING_WRITE, node.name))
        written = [(value, size) for value, version, size in before if value._version != version]
        for value, size in written:
            self.has_writes = True
            if repeats_memory(value):
                raise Unsupported(Why(reasons.OVERLAPPING_WRITE, node.name))
            if aliases.is_lazy(value):  # its base would get the bit, and views of that one would lose it
                raise Unsupported(Why(reasons.LAZY_BIT, node.name))
            if value.shape != size and not torch._functionalize_has_metadata_mutation(value):
                raise Unsupported(Why(reasons.TRACE_FAILED, f"{node.name}: the result is larger than {list(size)}"))
        if not written and self.is_inexact_view(node, traced):
            source, value = given[0]
            exact = None if source in self.inexact else with_its_elements_once(value, result)
            if exact is not None:
                result = exact
            else:
                self.inexact.add(node)
        if self.has_writes and isinstance(result, Tensor):
            result = self.in_memory_as_captured(node, result)
        if is_data(node) or node.args and node.args[0] in self.of_data and shares_memory(node, node.args[0]):
            self.of_data.add(node)
        if isinstance(result, torch.autocast):
            self.autocasts.append(result)
        elif args and isinstance(args[0], torch.autocast):
            self.autocasts.remove(args[0])
        if torch.is_grad_enabled():
            self.attribution.attribute(tensors_with_bases((result, args, kwargs)))
        return result

    def is_inexact_view(self, node: fx.Node, traced: int) -> bool:
        """Whether torch's functionalization writes what `node` yields back inexactly, given how many nodes were traced
        before. It adds the difference to what was expanded, which loses infinities and rounds, and fills with 0 what an
        unfold leaves out."""
        made = itertools.islice(reversed(self.graph.nodes), len(self.graph.nodes) - traced)
        is_made_so = any(each.target in (aten.expand.default, aten.unfold.default) for each in made)
        sources = [each for each in node.all_input_nodes if is_made_so or each in self.inexact]
        return any(shares_memory(node, each) for each in sources)

    def written_out(self, node: fx.Node, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """The call without `out=`, its results then written there: of some overloads with `out=` a write is lost.

        Raises Unsupported for `out=` of another dtype than the result's: some operators cast, others raise. Also for
        one that is resized and has elements: eager warns, and what other tensors see of its memory is not traced."""
        given = kwargs.pop("out")
        result = node.target(*args, **kwargs)  # type: ignore[operator]
        for target, made in zip(tree_leaves(given), tree_leaves(result), strict=True):
            if target.dtype != made.dtype:
                raise Unsupported(Why(reasons.OUT_DTYPE, f"{node.name}: {made.dtype} into {target.dtype}"))
            if target.shape == made.shape:
                target.copy_(made)
            elif target.numel() or target._is_view() or not torch._is_functional_tensor(made):
                raise Unsupported(Why(reasons.RESIZED, f"{node.name}: {list(target.shape)} becomes {list(made.shape)}"))
            else:
                torch._functionalize_replace(target, torch._from_functional_tensor(made))
                torch._functionalize_commit_update(target)
        return given if isinstance(given, Tensor) else type(result)(given)

    def check_in_place(self, node: fx.Node) -> None:
        """Raise Unsupported where integers would be updated with floats: decompositions cast, operators raise."""
        given: Any = fx.map_arg((node.args, node.kwargs), lambda each: info(each).value)
        args, kwargs = given
        plain = getattr(torch.Tensor, str(node.target)[:-1], None)
        if plain is None or args[0].dtype.is_floating_point or args[0].dtype.is_complex:
            return
        with _disable_current_modes(), self.captured.fake_mode, not_functional():
            try:
                result = plain(*args, **kwargs)
            except Exception as error:
                raise Unsupported(Why(reasons.TRACE_FAILED, f"{node.name}: {type(error).__name__}: {error}")) from error
        if isinstance(result, Tensor) and not torch.can_cast(result.dtype, args[0].dtype):
            raise Unsupported(Why(reasons.TRACE_FAILED, f"{node.name}: {result.dtype} into {args[0].dtype}"))

    def check_draw_order(self, node: fx.Node, target: Any) -> None:
        """Raise Unsupported where normal_() would draw other numbers: on a CPU they depend on the layout."""
        if node.target != "normal_" or target.device.type != "cpu":
            return
        wanted = info(node).value
        is_alike = wanted.is_contiguous() == target.is_contiguous() and same_strides(wanted, target)
        if not (is_alike and is_non_overlapping_and_dense_or_false(target)):
            raise Unsupported(Why(reasons.DRAW_ORDER, f"{node.name}, of strides {list(wanted.stride())}"))

    def in_memory_as_captured(self, node: fx.Node, result: Tensor) -> Tensor:
        """What `node` yields, in memory of its own where it is so in eager. What was written in place has the strides
        of the functional result here, so reshape() and the like may decide otherwise."""
        given = [each for each in node.all_input_nodes if isinstance(info(each).value, Tensor)]
        wanted = info(node).value
        apart = storage_of(wanted) not in [storage_of(info(each).value) for each in given]
        if apart == (storage_of(result) not in [storage_of(self.values[each]) for each in given]):
            return result
        if not apart:
            raise Unsupported(Why(reasons.ALIAS_UNKNOWN, f"{node.name} is a view in eager and none in the trace"))
        return result.clone(memory_format=torch.contiguous_format if wanted.is_contiguous() else torch.preserve_format)

    def constant(self, node: fx.Node) -> Any:
        value: Any = self.captured.constants[str(node.target)]
        if not isinstance(value, Tensor):
            return value
        if value.requires_grad and self.captured.grad_enabled:
            raise Unsupported(Why(reasons.CONSTANT_GRAD, str(node.target)))
        name = str(node.target)
        if name not in self.constants:
            with _disable_current_modes(), not_functional():
                plain = value.detach()
            made = self.tape.constant(plain, name)
            self.constants[name] = torch._to_functional_tensor(info(made).value)
        return self.constants[name]

    # What became of inputs and results.

    def finish(self, results: list[object]) -> joint.Traced:
        inputs = {}
        for index, value in self.inputs.items():
            with origin(info(self.captured.inputs[index]).id):
                inputs[index] = self.live(value)
        self.check_constants()
        self.check_inputs(inputs)
        restrides = tuple(
            self.restride(i, self.moved(i) if self.is_restrided(i) else info(inputs[i].node).value)
            for i in self.inputs
            if self.is_restrided(i) or self.is_resized(i, inputs[i].node)
        )
        restrided = frozenset(restride.index for restride in restrides)
        written = [i for i, value in inputs.items() if root(value.node) is not self.placeholders[i]]
        self.check_overlap(written)
        self.check_storage(written, inputs)
        after = [i for i in written if i in restrided or self.autograd_saw(i)]
        outputs: list[tuple[joint.GraphOutput, fx.Node, Tensor | None]] = []
        seen = {i: inputs[i].seen if self.autograd_saw(i) else None for i in after}
        outputs += [(joint.NewValue(i), inputs[i].node, seen[i]) for i in after]
        self.check_bits(results)
        numbers = {i: self.size_node(v) for i, v in enumerate(results) if isinstance(v, Symbolic)}
        as_captured = {i: self.kind(i) for i, value in enumerate(results) if isinstance(value, Tensor)}
        placed = place(results, inputs, restrided, numbers, self.live, self.tape, len(outputs), as_captured)
        self.check_hooks(placed.returned)
        outputs += placed.outputs
        outputs = [(what, self.as_captured(what, node), seen) for what, node, seen in outputs]
        differentiable = tuple(seen is not None and seen.requires_grad for _, _, seen in outputs)
        eager = joint.GradFnGraph()
        nodes: list[Any] = [node for _, node, _ in outputs]
        kinds: list[joint.GraphOutput] = [what for what, _, _ in outputs]
        sources: list[joint.GraphInput] = [joint.Primal(i) for i in range(len(self.placeholders))]
        if any(differentiable):
            heads = [(i, seen) for i, (_, _, seen) in enumerate(outputs) if seen is not None and seen.requires_grad]
            values = [info(node).value for _, node, _ in outputs]
            memory = {k: storage_of(value) for k, value in enumerate(values) if isinstance(value, Tensor)}
            both = {i: (self.placeholders[i], inputs[i].node) for i in self.inputs}  # before the writes, and after
            given = {i: [info(node).value for node in nodes] for i, nodes in both.items()}
            tensors = ((i, value) for i, value in enumerate(results) if isinstance(value, Tensor))
            own = {i: value for i, value in tensors if is_of_graph(placed.returned[i], value)}
            eager = record([seen for _, seen in heads], self.edges, memory, given, own)
            sources += [joint.Tangent(i) for i, _ in heads]
            gradients = self.backward([(nodes[i], seen) for i, seen in heads])
            nodes += [gradients.get(i) for i in range(len(self.placeholders))]
            kinds += [joint.GradientOf(i) for i in range(len(self.placeholders))]
        inside = [i for i in written if i not in after]
        self.write_inputs(inside, inputs)
        self.graph.output(tuple(nodes))
        mutations = [joint.Mutation(i, output) for output, i in enumerate(after)]
        mutations += [joint.Mutation(i) for i in inside]
        signature = joint.Signature(
            inputs=tuple(sources),
            outputs=tuple(kinds),
            returned=placed.returned,
            mutations=tuple(mutations),
            versions=self.versions({*written, *restrided}),
            restrides=restrides,
            repeats=dict(self.repeats),
            differentiable=differentiable,
            symbols=places([info(node).value for node in self.placeholders]),
        )
        name, constants = self.captured.name, dict(self.tape.constants)
        made = Graph(name, self.graph, self.captured.fake_mode, constants, self.captured.grad_enabled)
        return joint.Traced(made, not any(differentiable), signature, self.captured, eager)

    def live(self, value: Tensor) -> FinalTensor:
        """`value` brought up to date with what was written through its aliases, and the node that yields it."""
        if not torch._is_functional_tensor(value):
            return FinalTensor(value, self.tape.node(value))
        return FinalTensor(value, self.tape.node(content(value)))

    def size_node(self, value: object) -> Any:
        assert self.tape.sizes is not None
        return self.tape.sizes.node(value)

    def versions(self, changed: set[int]) -> dict[int, int]:
        """By how much the versions of inputs grow."""
        writes = {i: info(node).writes for i, node in enumerate(self.captured.inputs) if i in self.inputs}
        grown = {i: self.inputs[i]._version if count is None else count for i, count in writes.items()}
        return {i: count for i, count in grown.items() if count or i in changed}

    def autograd_saw(self, index: int) -> bool:
        """Whether autograd recorded a write of this input; a write under no_grad or through detach it did not."""
        value = self.inputs[index]
        return value.requires_grad and value.grad_fn is not self.first_grad_fn[index]

    def is_restrided(self, index: int) -> bool:
        return bool(torch._functionalize_has_metadata_mutation(self.inputs[index]))

    def is_resized(self, index: int, node: fx.Node) -> bool:
        """Whether an operator gave this input, its `out=`, another shape and the memory for it."""
        return bool(info(node).value.shape != info(self.placeholders[index]).value.shape)

    def moved(self, index: int) -> Tensor:
        """An input with other axes, as capture saw it last: what is traced has the strides of the functional results
        that were written to it."""
        seen = [node for node, value in self.values.items() if value is self.inputs[index] and node.op != "placeholder"]
        value: Tensor = info(seen[-1]).value
        return value

    def restride(self, index: int, value: Tensor) -> joint.Restride:
        size, stride = tuple(map(expression, value.shape)), tuple(map(expression, value.stride()))
        first, resized = info(self.captured.inputs[index]).value.storage_offset(), not self.is_restrided(index)
        grown = value.numel() != info(self.placeholders[index]).value.numel()
        name = self.placeholders[index].name
        if resized and self.inputs[index].requires_grad:
            raise Unsupported(Why(reasons.RESIZED, f"{name} requires grad, and resize_() refuses such a tensor"))
        if resized and not value.is_contiguous() or not resized and grown:
            raise Unsupported(Why(reasons.RESIZED, f"{name} gets strides {list(value.stride())}"))
        moved = expression(value.storage_offset() - first)
        seen = self.autograd_saw(index)
        return joint.Restride(index, size, stride, moved, seen, resized, self.turning(index) if seen else ())

    def turning(self, index: int) -> tuple[tuple[str, tuple[object, ...], Mapping[str, object]], ...]:
        """The methods that give an input other axes, where all of them can be called at once before the graph."""
        nodes = list(self.captured.graph.nodes)
        found = [node for node in nodes if self.values.get(node) is self.inputs[index] and turns(node)]
        calls = [(node.target, node.args[1:], dict(node.kwargs)) for node in found if isinstance(node.target, str)]
        fixed = all(type(each) in (int, str) for _, *arguments in calls for each in tree_leaves(arguments))
        in_one_mode = all(node.target is not torch._C._set_grad_enabled for node in nodes)
        return tuple(calls) if fixed and in_one_mode and len(calls) == len(found) else ()

    def as_captured(self, what: joint.GraphOutput, node: fx.Node) -> fx.Node:
        """`node` in the strides that capture saw for this result, or for the base of these, which a decomposition may
        not have kept."""
        value = info(node).value
        if isinstance(what, joint.Result):
            wanted = self.seen_by_capture(what.index)
        else:
            members = what.results if isinstance(what, joint.Base) else ()
            member = None if all(map(self.lies_as_captured, members)) else self.seen_by_capture(members[0])
            wanted = None if member is None else member._base
        if not isinstance(value, Tensor) or wanted is None:
            return node
        if (wanted.dtype, wanted.dim()) != (value.dtype, value.dim()):
            return node
        if any(expression(n) != expression(m) for n, m in zip(wanted.shape, value.shape, strict=True)):
            return node
        with origin(*info(node).origins), not_functional():
            return self.tape.node(laid_out_as(wanted, value))

    def lies_as_captured(self, index: int) -> bool:
        """Whether the trace gives this result the strides that capture saw."""
        wanted, node = self.seen_by_capture(index), self.captured.outputs[index]
        return wanted is None or same_strides(wanted, info(self.live(self.values[node]).node).value)

    def seen_by_capture(self, index: int) -> Tensor | None:
        node = self.captured.outputs[index]
        value = info(node).value if isinstance(node, fx.Node) else None
        return value if isinstance(value, Tensor) else None

    def kind(self, index: int) -> AsCaptured:
        seen, node = self.seen_by_capture(index), self.captured.outputs[index]
        is_view = seen is not None and seen._is_view() and not seen.is_inference()
        return AsCaptured(is_view, node in self.of_data)

    def write_inputs(self, indices: list[int], inputs: dict[int, FinalTensor]) -> None:
        """The trailing copies into inputs whose change autograd does not see."""
        for index in indices:
            source, target = inputs[index].node, self.placeholders[index]
            with origin(*info(source).origins):
                copied = self.graph.create_node("call_function", aten.copy_.default, (target, source), name="copy_")
                self.tape.stamp(copied, info(target).value, about=f"input {target.name} takes its new value")

    # Refusals.

    def check_inputs(self, inputs: dict[int, FinalTensor]) -> None:
        for index in inputs:
            name, value = self.placeholders[index].name, self.inputs[index]
            if torch._functionalize_was_storage_changed(value):
                raise Unsupported(Why(reasons.STORAGE_CHANGED, name))
            before = index in self.edges
            leaf_now = value.requires_grad and value.grad_fn is None
            if (before and not value.requires_grad) or (not before and leaf_now):
                raise Unsupported(Why(reasons.REQUIRES_GRAD_CHANGED, name))

    def check_bits(self, results: list[Any]) -> None:
        """A write through a lazy conjugate or negative gives the trace a tensor with other bits than eager's."""
        for index, value in enumerate(results):
            if isinstance(seen := self.seen_by_capture(index), Tensor):
                made = info(self.live(value).node).value
                if (seen.is_conj(), seen.is_neg()) != (made.is_conj(), made.is_neg()):
                    raise Unsupported(Why(reasons.LAZY_BIT, self.captured.outputs[index].name))

    def check_hooks(self, returned: Sequence[joint.Returned]) -> None:
        """Raise Unsupported for a hook of a view in whose memory a view that is returned lies."""
        views = [i for i, made in enumerate(returned) if isinstance(made, joint.FromView)]
        memory = {storage_of(seen) for i in views if (seen := self.seen_by_capture(i)) is not None}
        hooking = (n for n in self.captured.graph.nodes if getattr(n.target, "__name__", "") == "register_hook")
        for node in (each.args[0] for each in hooking):
            if isinstance(node, fx.Node) and (value := info(node).value)._is_view() and storage_of(value) in memory:
                raise Unsupported(Why(reasons.HOOKED_VIEW, node.name))

    def check_constants(self) -> None:
        for name, value in self.constants.items():
            if root(self.live(value).node).op != "get_attr":
                raise Unsupported(Why(reasons.CONSTANT_MUTATION, name))

    def check_storage(self, written: list[int], inputs: dict[int, FinalTensor]) -> None:
        """Raise Unsupported where the new content of an input was put together by as_strided."""
        for index in written:
            if any(node.target is aten.as_strided_scatter.default for node in needed_by([inputs[index].node])):
                raise Unsupported(Why(reasons.STORAGE_WRITE, self.placeholders[index].name))

    def check_overlap(self, written: list[int]) -> None:
        """Raise Unsupported where a written input may share memory with another."""
        fakes = {index: info(self.captured.inputs[index]).value for index in self.inputs}
        if pair := overlapping(written, fakes):
            names = (self.placeholders[each].name for each in pair)
            raise Unsupported(Why(reasons.ALIASED_MUTATION, " and ".join(names)))

    # The backward.

    def backward(self, heads: list[tuple[fx.Node, Tensor]]) -> dict[int, fx.Node]:
        """Trace the backward from `heads`; the node of each input's gradient, for inputs that get one."""
        tangents = [self.tangent(number, node) for number, (node, _) in enumerate(heads)]
        wanted = dict(self.edges)
        outputs = [seen for _, seen in heads]
        with (
            origin(ACCUMULATION),
            torch.autograd.set_multithreading_enabled(False),
            torch.autograd.set_detect_anomaly(False),  # it looks for NaN in the data; where it is on, eager runs
            torch.enable_grad(),
            torch._C._DisableAutocast(),  # it is for forwards: gradients have the dtypes that those had
        ):
            try:
                found = torch.autograd.grad(outputs, list(wanted.values()), tangents, allow_unused=True)
            except Unsupported:
                raise
            except Exception as error:  # eager raises it when backward() is called
                raise Unsupported(Why(reasons.TRACE_FAILED, f"backward: {type(error).__name__}: {error}")) from error
        if lazy := [i for i, value in zip(wanted, found, strict=True) if value is not None and aliases.is_lazy(value)]:
            raise Unsupported(Why(reasons.LAZY_BIT, f"the gradient of {self.placeholders[lazy[0]].name}"))
        with origin(synthetic("gradient of an input")):
            return {i: self.live(value).node for i, value in zip(wanted, found, strict=True) if value is not None}

    def tangent(self, number: int, node: fx.Node) -> Tensor:
        """A placeholder for the gradient of a forward output, dense and in the output's own layout."""
        value = info(node).value
        with _disable_current_modes(), self.captured.fake_mode, not_functional():
            inner = torch.empty_like(value.detach())
        anchor = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        with self.graph.inserting_before(anchor), origin(*info(node).origins):
            placeholder = self.graph.placeholder(f"tangent_{number}")
            self.tape.stamp(placeholder, inner, about=f"gradient of {node.name}")
        self.tape.bind(inner, placeholder)
        return torch._to_functional_tensor(inner)


def is_of_graph(returned: joint.Returned, value: Tensor) -> bool:
    """Whether the caller gets `value`, which has a gradient, as a tensor of the graph or as a view of such."""
    base = returned.base if isinstance(returned, joint.FromView) else returned
    return isinstance(base, joint.FromGraph) and value.requires_grad


def is_data(node: fx.Node) -> bool:
    return node.target is getattr and node.args[1] == "data"


def shares_memory(node: fx.Node, source: Any) -> bool:
    return not {*map(storage_of, in_memory(node))}.isdisjoint(map(storage_of, in_memory(source)))


def content(value: Tensor) -> Tensor:
    """The current value of a functional tensor: another tensor after each write."""
    torch._sync(value)  # type: ignore[attr-defined, no-untyped-call]
    return torch._from_functional_tensor(value)


def with_its_elements_once(source: Tensor, view: object) -> Tensor | None:
    """The view as a view that adds dimensions of size 1 at most, where it is no more than that: an unfold may have the
    shape of its source and other strides."""
    if not isinstance(view, Tensor) or view.dim() < source.dim():
        return None
    new = view.dim() - source.dim()
    sizes, strides = ([*map(expression, each)] for each in (view.shape, view.stride()))
    ours = sizes[new:], strides[new:], expression(view.storage_offset())
    theirs = [*map(expression, source.shape)], [*map(expression, source.stride())], expression(source.storage_offset())
    return source.view(view.shape) if sizes[:new] == [1] * new and ours == theirs else None


def fills_with_gradient(node: fx.Node) -> bool:
    """Whether the node fills places that indices name with a tensor that needs a gradient."""
    name = str(getattr(node.target, "__name__", node.target)).removesuffix("_")
    values = [info(each).value for each in node.all_input_nodes] if name == "index_fill" else []
    return any(isinstance(value, Tensor) and value.requires_grad and not value.dim() for value in values[1:])


def decomposes_inexactly(node: fx.Node) -> bool:
    """Whether torch's decomposition of the node computes other values than eager does."""
    of = INEXACT.get(getattr(node.target, "overloadpacket", node.target))
    arguments = fx.map_arg((*node.args, *node.kwargs.values()), lambda each: info(each).value)
    return of is not None and of(arguments)


def repeats_memory(value: Tensor) -> bool:
    """Whether one element of memory appears as several elements of the tensor (expand)."""
    return any(type(s) is int and s == 0 and n != 1 for n, s in zip(value.shape, value.stride(), strict=True))


def tensors_with_bases(values: object) -> list[Tensor]:
    """The tensors among `values`, and those they are views of: writing a view changes the grad_fn of its base."""
    found: list[Tensor] = []
    pending = [values]
    while pending:
        value = pending.pop()
        if isinstance(value, Tensor):
            found.append(value)
            if value._is_view() and value._base is not None:
                found.append(value._base)
        elif isinstance(value, (tuple, list)):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
    return found
