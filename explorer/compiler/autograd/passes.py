"""CLEANUP: the named passes between the trace and the partition. Each is a function that changes an fx.Graph in place,
with one idea.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from explorer.compiler.autograd.layouts import expression, inverse, stride_order
from explorer.compiler.autograd.tape import is_view, root, viewed
from explorer.compiler.autograd.userpass import call, stamp_added
from explorer.compiler.autograd.verify import verify_traced
from explorer.core.origin import Origins, origin, union
from explorer.core.recorder import note
from explorer.core.rules import OwnRule, RuleTable, using
from explorer.core.stage import Stage
from explorer.ir.graph import (
    Graph,
    Rewritten,
    checks_positions,
    copied,
    has_effect,
    info,
    is_random,
    merge_origins,
    restamp,
    stamp,
)
from explorer.ir.joint import Traced


def dead_code(graph: fx.Graph) -> None:
    """Drop what nobody reads, unless it has an effect or checks the elements of an index tensor.

    a = mul(x, y); b = add(x, y); return b   ->   b = add(x, y); return b

    Random operators stay even when unread, so that later draws are those of eager.
    Inductor: fx_passes/joint_graph.py; torch.fx.Graph.eliminate_dead_code.
    """
    for node in reversed(graph.nodes):
        if node.users or node.op != "call_function":
            continue
        if not (has_effect(node.target) or checks_positions(node.target)):
            note(Rewritten.of, "nothing reads it", node)
            graph.erase_node(node)


ADDRESSED = 1 << 30
"""In place of a number of outputs: as_strided counts places from the start of this memory, so no other replaces it."""


def escaping(graph: fx.Graph) -> Counter[fx.Node]:
    """The nodes whose memory the caller gets, with the number of outputs that lie in it."""
    returned = graph.output_node().args[0]
    assert isinstance(returned, (tuple, list))
    found = Counter(root(value) for value in returned if isinstance(value, fx.Node) and is_tensor(value))
    for node in graph.nodes:
        if is_call(node, aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default):
            found[root(node.args[0])] = ADDRESSED
    return found


def is_tensor(node: fx.Node) -> bool:
    return isinstance(info(node).value, Tensor)


def supersede(node: fx.Node, by: fx.Node, pattern: str) -> None:
    """Let every user of `node` read `by` instead, and erase it. `pattern` is what was found, for the record."""
    note(Rewritten.of, pattern, node, by)
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def may_share(node: fx.Node, source: fx.Node, outputs: Counter[fx.Node]) -> bool:
    """Whether `node`, a copy of `source`, can be replaced by it without the caller seeing two results, or a result and
    an input, in one memory."""
    if outputs[root(node)] == 0:
        return True
    if outputs[root(node)] >= ADDRESSED:
        return False
    memory = root(source)
    return memory.op == "call_function" and outputs[memory] == 0


def insert(
    before: fx.Node, target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], causes: Origins
) -> fx.Node:
    """A new node in front of `before`, its value computed from its arguments' values (under the fake mode in force)."""
    graph = before.graph
    name = f"{target._overloadpacket.__name__.lstrip('_')}_new"
    with graph.inserting_before(before):
        made = graph.create_node("call_function", target, args, kwargs, name=name)
    values = fx.map_arg((args, kwargs), lambda node: info(node).value)
    facts = info(before)
    with origin(*causes):
        value = target(*values[0], **values[1])
        return stamp(
            made, f"aten.{made.name}", value, span=facts.span, module=facts.module, checkpoint=facts.checkpoint
        )


def same_layout(a: Tensor, b: Tensor) -> bool:
    """Same dtype, shape and strides, as far as is known without a new assumption about sizes."""
    return a.dtype == b.dtype and layout(a) == layout(b)


def layout(value: Tensor) -> tuple[Any, ...]:
    return (*map(expression, value.shape), *map(expression, value.stride()))


def is_call(node: object, *targets: object) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


aten = torch.ops.aten

# Constants.


Number = int | float | bool


def fold_constants(graph: fx.Graph) -> None:
    """Compute on fills when compiling.

    mul(full([4], 2.), full([4], 3.))   ->   full([4], 6.)
    mul(a, full([4], 1.))               ->   a

    Only elementwise operators, evaluated by eager on one element of the same dtype, so that nothing rounds otherwise.
    Inductor: fx_passes/joint_graph.py (UniformValueConstantFolder).
    """
    outputs = escaping(graph)
    known: dict[fx.Node, Number] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(info(node).value, Tensor):
            continue
        if is_call(node, aten.full.default) and isinstance(node.args[1], (int, float)):
            known[node] = node.args[1]
        elif (below := viewed(node)) in known and _reads_alike(info(below).value, info(node).value):
            known[node] = known[below]
        elif (same := unit_product(node, known)) is not None and may_share(node, same, outputs):
            outputs[root(same)] += outputs.pop(root(node), 0)
            supersede(node, same, "a product or a quotient with ones")
        elif (number := evaluated(node, known)) is not None and info(node).value.is_contiguous():
            value = info(node).value
            causes = union(info(node).origins, *(info(n).origins for n in node.all_input_nodes))
            shape = [size_argument(node, d) for d in range(value.dim())]
            if None in shape:
                continue
            facts = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
            made = insert(node, aten.full.default, (shape, number), facts, causes)
            known[made] = number
            if outputs[node]:
                outputs[made] = outputs.pop(node)
            supersede(node, made, "an elementwise operator of fills")


def _reads_alike(a: Tensor, b: Tensor) -> bool:
    """Whether the bytes of an element mean the same number in both."""
    return (a.dtype, a.is_neg(), a.is_conj()) == (b.dtype, b.is_neg(), b.is_conj())


def unit_product(node: fx.Node, known: dict[fx.Node, Number]) -> fx.Node | None:
    """The other factor of a product (or the dividend of a quotient) with a fill of ones that changes nothing."""
    if not is_call(node, *UNITS) or len(node.args) != 2 or info(node).value.is_complex():
        return None  # an infinity times 1 + 0i has a NaN
    left, right = node.args
    pairs = [(left, right)] if node.target is aten.div.Tensor else [(left, right), (right, left)]
    for kept, unit in pairs:
        if isinstance(kept, fx.Node) and isinstance(unit, fx.Node) and known.get(unit) == 1:
            value = info(kept).value
            if isinstance(value, Tensor) and same_layout(value, info(node).value):
                return kept
    return None


def evaluated(node: fx.Node, known: dict[fx.Node, Number]) -> Number | None:
    """The one value that all elements of `node` have, where its tensor arguments are fills."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.pointwise not in target.tags or is_random(target):
        return None
    inputs = node.all_input_nodes
    if not inputs or any(source not in known for source in inputs):
        return None
    with _disable_current_modes():
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: torch.tensor(known[n], dtype=info(n).value.dtype))
        try:
            result = target(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError):  # the program's own error, which the call raises when it runs
            return None
        if result.dtype != info(node).value.dtype or result.is_complex():
            return None
        number: Number = result.item()
        return number


def size_argument(node: fx.Node, dimension: int) -> Any:
    """The size of one dimension as a graph argument: a number, or the size node that a fill of that size was given."""
    size = info(node).value.shape[dimension]
    if isinstance(size, int):
        return size
    for source in node.all_input_nodes:
        if is_call(source, aten.full.default):
            given: Any = source.args[0]
            if info(source).value.dim() == info(node).value.dim():
                return given[dimension]
    return None


# Reading back what was just written.


WRITTEN_BY = {
    aten.select.int: aten.select_scatter.default,
    aten.slice.Tensor: aten.slice_scatter.default,
    aten.diagonal.default: aten.diagonal_scatter.default,
}


def read_back(graph: fx.Graph) -> None:
    """Take the value itself where a view reads exactly the part that was just written.

    b = select_scatter(a, v, 0, 1); c = select(b, 0, 1)   ->   c = v

    Writes through views leave such pairs once they are functional.
    """
    returned = set(graph.output_node().all_input_nodes)
    for node in list(graph.nodes):
        below: Any = node.args[0] if node.args else None
        if not is_call(node, *WRITTEN_BY) or not is_call(below, WRITTEN_BY[node.target]) or node in returned:
            continue
        written = below.args[1]
        same_part = frozen(without_defaults(node.args[1:])) == frozen(without_defaults(below.args[2:]))
        if same_part and node.kwargs == below.kwargs and fits(written, node):
            supersede(node, written, "a read of the part that was just written")


def fits(written: fx.Node, node: fx.Node) -> bool:
    """Whether every user of `node` can read `written`: a view of it may need the very same strides."""
    a, b = info(written).value, info(node).value
    return same_layout(a, b) or (a.dtype == b.dtype and not any(is_view(user.target) for user in node.users))


def without_defaults(part: Any) -> tuple[Any, ...]:
    """A slice's arguments without the step of 1 that some calls spell out."""
    return tuple(part[:-1]) if len(part) == 4 and part[-1] == 1 else tuple(part)


# Operators that change nothing.


ALWAYS = frozenset({aten.detach.default, aten.alias.default})
SAME_SHAPE = frozenset(
    {aten.view.default, aten.expand.default, aten.permute.default, aten.squeeze.dims, aten.slice.Tensor}
)
COPIES = frozenset({aten.clone.default, aten._to_copy.default, aten.lift_fresh_copy.default})
UNITS = frozenset({aten.mul.Tensor, aten.div.Tensor})


def no_ops(graph: fx.Graph) -> None:
    """Drop views to the same shape, copies in the same layout and products with one.

    b = view(a, a.shape); c = clone(b); return mul(c, c)   ->   return mul(a, a)

    A copy stays where the caller would otherwise get one memory twice, or the memory of an input.
    Inductor: fx_passes/post_grad.py (remove_noop_ops).
    """
    outputs = escaping(graph)
    for node in list(graph.nodes):
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
            continue
        source = node.args[0]
        if node.target in ALWAYS:
            supersede(node, source, "another name for a value")
            continue
        value = info(node).value
        if not isinstance(value, torch.Tensor) or not isinstance(info(source).value, torch.Tensor):
            continue
        if not same_layout(value, info(source).value):
            continue
        if node.target in SAME_SHAPE and value.storage_offset() == info(source).value.storage_offset():
            supersede(node, source, "a view to the same shape")
        elif is_copy(node) and may_share(node, source, outputs):
            outputs[root(source)] += outputs.pop(root(node), 0)
            supersede(node, source, "a product with one" if node.target in UNITS else "a copy in the same layout")


def is_copy(node: fx.Node) -> bool:
    """Whether the node yields its first argument's elements, in the same dtype by what the caller checked."""
    if node.target in UNITS:
        is_one = len(node.args) == 2 and isinstance(node.args[1], (int, float)) and node.args[1] == 1
        return is_one and not info(node).value.is_complex()
    same_place = "device" not in node.kwargs or node.kwargs["device"] == info(node.args[0]).value.device  # type: ignore[arg-type]
    return is_call(node, *COPIES) and same_place


# Casts to and fro.


def exact_casts(graph: fx.Graph) -> None:
    """Drop a first cast that loses nothing.

    _to_copy(_to_copy(a: bf16, f32), bf16)   ->   a
    _to_copy(_to_copy(a: bf16, f32), f64)    ->   _to_copy(a, f64)

    A first cast that rounds (f32 to bf16) stays. Inductor: fx_passes/joint_graph.py (pointless_convert).
    """
    outputs = escaping(graph)
    for node in list(graph.nodes):
        below: Any = node.args[0] if node.args else None
        if not (is_plain_cast(node) and isinstance(below, fx.Node) and is_plain_cast(below)):
            continue
        source: Any = below.args[0]
        before, between, after = (info(n).value for n in (source, below, node))
        if not is_lossless(before.dtype, between.dtype):
            continue
        if before.dtype == after.dtype:
            if same_layout(before, after) and may_share(node, source, outputs):
                outputs[root(source)] += outputs.pop(root(node), 0)
                supersede(node, source, "a cast that loses nothing, and the cast back")
            continue
        causes = union(info(below).origins, info(node).origins)
        cast = insert(node, aten._to_copy.default, (source,), {"dtype": after.dtype}, causes)
        supersede(node, cast, "a cast of a cast that loses nothing")


def is_plain_cast(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is aten._to_copy.default and set(node.kwargs) == {"dtype"}


def is_lossless(a: torch.dtype, b: torch.dtype) -> bool:
    """Whether every value of `a` is a value of `b`."""
    if a == b or a is torch.bool:
        return True
    if a.is_complex or b.is_complex or b is torch.bool:
        return False
    if a.is_floating_point:
        return b.is_floating_point and exponent_bits(a) <= exponent_bits(b) and digits(a) <= digits(b)
    if b.is_floating_point:
        return bool(torch.iinfo(a).max < 2 ** digits(b))
    return bool(torch.iinfo(b).min <= torch.iinfo(a).min and torch.iinfo(a).max <= torch.iinfo(b).max)


def digits(dtype: torch.dtype) -> int:
    """Binary digits of the significand, the hidden one included."""
    return {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}.get(dtype, 0)


def exponent_bits(dtype: torch.dtype) -> int:
    return {torch.float16: 5, torch.bfloat16: 8, torch.float32: 8, torch.float64: 11}.get(dtype, 99)


# Views of views.


def views_of_views(graph: fx.Graph) -> None:
    """Take one view where there were two.

    view(view(a, [6, 4]), [2, 12])           ->   view(a, [2, 12])
    permute(permute(a, [1, 2, 0]), [1, 0, 2])  ->   permute(a, [2, 1, 0])
    expand(expand(a, [4, 1]), [4, 8])        ->   expand(a, [4, 8])

    Inductor: fx_passes/post_grad.py; the views of ir.py fold the same way.
    """
    for node in list(graph.nodes):
        below: Any = node.args[0] if node.args else None
        if is_call(node, aten.view.default, aten.expand.default, aten.permute.default) and is_call(below, node.target):
            joined = join(node, below)
            if joined is not None:
                supersede(node, joined, "a view of a view")


def join(node: fx.Node, below: fx.Node) -> fx.Node | None:
    """One view from below's source to `node`, the source itself, or None where one view cannot do it."""
    source: Any = below.args[0]
    argument: Any = node.args[1]
    if node.target is aten.permute.default:
        argument = [below.args[1][position] for position in node.args[1]]  # type: ignore[index, union-attr]
        if argument == sorted(argument):
            return source  # type: ignore[no-any-return]
    elif any(isinstance(size, int) and size == -1 for size in argument):
        return None
    elif node.target is aten.view.default and not viewable(info(source).value, info(node).value):
        return None
    return insert(node, node.target, (source, argument), {}, union(info(below).origins, info(node).origins))  # type: ignore[arg-type]


def viewable(source: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether `source` can be viewed in the shape and strides of `wanted` directly."""
    if source.is_contiguous() and wanted.is_contiguous():
        return True
    try:
        return layout(source.view(wanted.shape)) == layout(wanted)
    except (RuntimeError, ValueError):
        return False


# Operands of which only the shape is read.


SHAPE_ONLY: dict[Any, int] = {
    aten.max_pool2d_with_indices_backward.default: 1,
    aten.max_pool3d_with_indices_backward.default: 1,
    aten.adaptive_max_pool2d_backward.default: 1,
    aten.avg_pool2d_backward.default: 1,
    aten.avg_pool3d_backward.default: 1,
    aten._adaptive_avg_pool2d_backward.default: 1,
    aten._adaptive_avg_pool3d_backward.default: 1,
}
"""Library calls and the position of the operand of which they use only sizes and memory format."""


def shape_only_operands(graph: fx.Graph) -> None:
    """Give uninitialized memory where only a shape is read, so that the value need not be kept for it.

    max_pool2d_backward(g, a, [2], ..., i)   ->   max_pool2d_backward(g, empty(a.shape), [2], ..., i)

    Inductor decomposes these backwards instead.
    """
    for node in list(graph.nodes):
        if not is_call(node, *SHAPE_ONLY):
            continue
        position = SHAPE_ONLY[node.target]
        operand = node.args[position]
        value: Tensor = info(operand).value
        if is_call(operand, aten.empty.memory_format) or not all(isinstance(n, int) for n in value.shape):
            continue
        order = stride_order(value)
        facts = {"dtype": value.dtype, "device": value.device}
        blank = insert(node, aten.empty.memory_format, ([value.shape[d] for d in order],), facts, info(node).origins)
        restamp(blank, about=f"the shape of {info(operand).id}")
        if order != sorted(order):
            blank = insert(node, aten.permute.default, (blank, inverse(order)), {}, info(node).origins)
        note(Rewritten.of, f"an operand of {info(node).id} of which only the shape is read", operand, blank)
        node.update_arg(position, blank)


# Common subexpressions.


def common_subexpressions(graph: fx.Graph) -> None:
    """Compute the same thing once.

    a = exp(x); b = exp(x); return mul(a, b)   ->   a = exp(x); return mul(a, a)

    The survivor takes the origins of both. Two results that the caller gets in memory of their own stay two.
    AOTAutograd: _functorch/compile_utils.py (fx_graph_cse).
    """
    outputs = escaping(graph)
    first: dict[Any, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or has_effect(node.target):
            continue
        key = (node.target, frozen(node.args), frozen(node.kwargs))
        kept = first.setdefault(key, node)
        if kept is node:
            continue
        theirs = _memory(kept)
        ours = _memory(node).items()
        pairs = [(theirs[part], memory) for part, memory in ours if theirs.get(part, memory) is not memory]
        if any(outputs[first_memory] and outputs[memory] for first_memory, memory in pairs):
            continue
        for first_memory, memory in pairs:
            outputs[first_memory] += outputs.pop(memory, 0)
        merge_origins(kept, node)
        supersede(node, kept, "the same call a second time")


def _memory(node: fx.Node) -> dict[Any, fx.Node]:
    """The node whose memory a tensor lies in; of a call with several results that of each one taken, by position."""
    if is_tensor(node):
        return {None: root(node)}
    return {user.args[1]: root(user) for user in node.users if user.target is operator.getitem and is_tensor(user)}


def frozen(value: object) -> Any:
    """A hashable key of an argument that distinguishes 1 from 1.0 and True, and 0.0 from -0.0."""
    if isinstance(value, (tuple, list)):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple((name, frozen(part)) for name, part in sorted(value.items()))
    if isinstance(value, float):
        return float, value.hex()
    return value if isinstance(value, (fx.Node, torch.dtype)) else (type(value), str(value))


Rewrite = Callable[[fx.Graph], None]


def graph_pass(name: str, *rewrites: Rewrite) -> Stage[Traced, Traced]:
    """A stage that runs `rewrites` on a copy of the traced graph."""

    def run(traced: Traced) -> Traced:
        old = traced.forward
        graph = old.copy()
        with old.fake_mode:
            for rewrite in rewrites:
                rewrite(graph)
        used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
        constants = {name: value for name, value in old.constants.items() if name in used}
        return replace(traced, forward=Graph(old.name, graph, old.fake_mode, constants, old.grad_enabled))

    return Stage(name, run, verify_traced)


CLEANUP: tuple[Stage[Traced, Traced], ...] = (
    graph_pass("dead code", dead_code),
    graph_pass("constant folding", fold_constants, dead_code),
    graph_pass("read-back", read_back, dead_code),
    graph_pass("no-ops", no_ops, dead_code),
    graph_pass("casts", exact_casts, dead_code),
    graph_pass("views", views_of_views, dead_code),
    graph_pass("shape-only operands", shape_only_operands, dead_code),
    graph_pass("common subexpressions", common_subexpressions, dead_code),
)

PASSES: RuleTable[str, Rewrite] = RuleTable("pass")
"""Passes by name that a person puts after those of CLEANUP; none is built in."""


def own_passes() -> tuple[Stage[Traced, Traced], ...]:
    """The person's own passes that are in force, in the order in which they were given."""
    return tuple(graph_pass(f"pass {name}", completed(rule)) for name in PASSES if (rule := PASSES.own(name)))


def completed(rule: OwnRule) -> Rewrite:
    """The pass, and after it what a node needs that the pass added without: where it comes from, and its value."""

    def rewrite(graph: fx.Graph) -> None:
        before = copied(graph)
        rule(graph)
        with using(rule.name):
            stamp_added(before, graph, rule.name)
        for node in graph.nodes:
            if node.op == "call_function" and info(node).value is None:
                restamp(node, value=call(node, {n: info(n).value for n in node.all_input_nodes}, rule.name), about="")

    return rewrite
