"""Define and run, as TensorFlow 1 did it: build a tf.Graph first, then run parts of it in a session.

The graph is made from the ATen graph that torch.export gives, operation by operation.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from explorer.records.data.methods import ViewData
from explorer.records.methods.exported import as_module
from explorer.records.methods.method import Example, Method, Runnable, Saving, places, tensors, view
from explorer.records.methods.tensorflow_ops import TF_OPS, dtype_of

DEVICE = "/device:CPU:0"


class DefinedGraph:
    """A tf.Graph with its session, placeholders by argument, and fetches."""

    def __init__(self, tf: Any, program: torch.export.ExportedProgram) -> None:
        self.tf = tf
        self.graph = tf.Graph()
        self.placeholders: list[Any] = []
        self.variables: dict[str, Any] = {}
        self._out_spec = program.call_spec.out_spec
        with self.graph.as_default(), tf.device(DEVICE):
            self.fetches = self._build(program)
            initialize = tf.compat.v1.global_variables_initializer()
            self.saver = tf.compat.v1.train.Saver() if self.variables else None
        self.session = tf.compat.v1.Session(graph=self.graph)
        self.session.run(initialize)

    def _build(self, program: torch.export.ExportedProgram) -> list[Any]:
        tf = self.tf
        specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if hasattr(spec.arg, "name")}
        if any(spec.kind.name != "USER_OUTPUT" for spec in program.graph_signature.output_specs):
            raise NotImplementedError(
                "the program changes an argument or a buffer, which has no counterpart in a graph of values"
            )
        made: dict[torch.fx.Node, Any] = {}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                made[node] = self._input(program, specs[node.name], node)
            elif node.op == "call_function":
                if node.target not in TF_OPS:
                    raise NotImplementedError(f"{node.target} has no counterpart here")
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), made.__getitem__)
                with tf.name_scope(node.name.lstrip("_")):  # a scope begins with a letter
                    made[node] = TF_OPS[node.target](tf, node.meta["val"], *args, **kwargs)
            elif node.op == "output":
                return [made[each] if isinstance(each, torch.fx.Node) else each for each in node.args[0]]
        raise AssertionError("a graph without an output")

    def _input(self, program: torch.export.ExportedProgram, spec: Any, node: torch.fx.Node) -> Any:
        tf = self.tf
        if spec.kind.name == "USER_INPUT":
            value = node.meta["val"]
            if not isinstance(value, torch.Tensor):
                return value
            made = tf.compat.v1.placeholder(dtype_of(tf, value.dtype), tuple(value.shape), name=node.name)
            self.placeholders.append(made)
            return made
        state = {**program.state_dict, **program.constants}
        value = state[spec.target].detach().numpy()
        if spec.kind.name != "PARAMETER":
            return tf.constant(value, name=node.name)
        self.variables[spec.target] = variable = tf.compat.v1.get_variable(
            node.name, initializer=value, use_resource=True
        )
        return variable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A run of the session. Raises TensorFlow's ValueError where a value does not fit its placeholder."""
        given = tensors(args, kwargs)
        for tensor, wanted in zip(given, self.placeholders, strict=True):
            if dtype_of(self.tf, tensor.dtype) != wanted.dtype.base_dtype:
                raise TypeError(f"placeholder {wanted.name} takes {wanted.dtype.name}, not {tensor.dtype}")
        feed = _feed(self.placeholders, given)
        wanted = [each for each in self.fetches if isinstance(each, self.tf.Tensor)]
        found = iter(self.session.run(wanted, feed))
        leaves = [torch.as_tensor(next(found)) if isinstance(each, self.tf.Tensor) else each for each in self.fetches]
        return tree_unflatten(leaves, self._out_spec)

    def as_defined(self) -> str:
        return "\n".join(_operation_line(each) for each in self.graph.get_operations())

    def as_run(self, example: Example) -> str:
        """The graph that the session ran: after its optimizer, cut by device."""
        v1 = self.tf.compat.v1
        options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
        feed = _feed(self.placeholders, tensors(example.args, example.kwargs))
        fetches = [each for each in self.fetches if isinstance(each, self.tf.Tensor)]
        self.session.run(fetches, feed, options=options, run_metadata=metadata)
        lines = []
        for number, part in enumerate(metadata.partition_graphs):
            lines.append(
                f"# part {number}: {len(part.node)} of the {len(self.graph.get_operations())} operations defined"
            )
            lines += [
                f"{node.name:<44} {node.op:<20} {node.device.rpartition('/')[2]:<16} {', '.join(node.input)}"
                for node in part.node
            ]
        return "\n".join(lines)

    def checkpoint(self) -> str:
        """Saves the variables, spoils them, restores them, and says whether they came back."""
        if self.saver is None:
            return "# no variables: nothing to keep in a checkpoint"
        session = self.session
        before = session.run(self.variables)
        with tempfile.TemporaryDirectory() as folder, self.graph.as_default():
            path = self.saver.save(session, os.path.join(folder, "model"))
            files = sorted(each.name for each in Path(folder).iterdir())
            for name, variable in self.variables.items():
                variable.load(before[name] * 0, session)
            self.saver.restore(session, path)
        after = session.run(self.variables)
        same = all((before[name] == after[name]).all() for name in before)
        return "\n".join(
            (
                f"# {len(before)} variables saved in {', '.join(files)}",
                f"# set to zero, then restored: {'every value came back' if same else 'VALUES DIFFER'}",
                *(f"{name:<40} {value.dtype} {list(value.shape)}" for name, value in before.items()),
            )
        )


def _feed(placeholders: Sequence[object], given: Sequence[torch.Tensor]) -> dict[Any, Any]:
    """What a session is fed, by placeholder or its name."""
    return dict(zip(placeholders, (tensor.detach().numpy() for tensor in given), strict=True))


def _operation_line(each: Any) -> str:
    inputs = ", ".join(value.name for value in each.inputs)
    outputs = ", ".join(f"{value.dtype.name}{value.shape}" for value in each.outputs)
    return f"{each.name:<44} {each.type:<20} {each.device:<16} ({inputs}) -> {outputs}"


def _capture(example: Example) -> Runnable:
    tf = tensorflow()
    exported = torch.export.export(as_module(example.fn), example.args, dict(example.kwargs))
    program = exported.run_decompositions()
    defined = DefinedGraph(tf, program)
    made_at = {name.lstrip("_"): place for name, place in places(program.graph).items()}

    def where(line: str) -> str:
        """An operation's scope is the name of the ATen node that it was made for."""
        return made_at.get(line.partition("/")[0].strip(), "")

    def views() -> tuple[ViewData, ...]:
        return (
            view("tf.Graph as defined", defined.as_defined(), "text", where),
            view("graph as run: optimized, placed on devices", defined.as_run(example), "text", where),
            view("checkpoint and restore", defined.checkpoint(), "text"),
        )

    def save(path: Path) -> None:
        path.write_bytes(defined.graph.as_graph_def().SerializeToString())

    return Runnable(
        defined,
        views,
        lambda: (
            "none in the graph: loops are unrolled, one branch was followed "
            "(there are tf.cond and tf.while_loop; ATen operations call for neither)"
        ),
        lambda: "fixed: those of the placeholders",
        Saving(
            save,
            lambda path: _restored(tf, path, defined),
            ".pb",
            "a TensorFlow session, without the program; variables come from a checkpoint",
        ),
        close=defined.session.close,
    )


def _restored(tf: Any, path: Path, defined: DefinedGraph) -> Callable[..., Any]:
    """The graph of a file in a session of its own, with the variables' values."""
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString(path.read_bytes())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    session = tf.compat.v1.Session(graph=graph)
    initializers = [each for each in graph.get_operations() if each.type == "NoOp" and each.name == "init"]
    session.run(initializers)
    names = [each.name for each in defined.placeholders]
    fetches = [each.name if isinstance(each, defined.tf.Tensor) else each for each in defined.fetches]

    def call(*args: object, **kwargs: object) -> Any:
        wanted = [each for each in fetches if isinstance(each, str)]
        found = iter(session.run(wanted, _feed(names, tensors(args, kwargs))))
        return tree_unflatten(
            [torch.as_tensor(next(found)) if isinstance(each, str) else each for each in fetches], defined._out_spec
        )

    return call


def tensorflow() -> Any:
    """The module, without its start-up messages."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return importlib.import_module("tensorflow")


def _missing() -> str:
    there = importlib.util.find_spec("tensorflow") is not None
    return "" if there else "not installed: tensorflow; pip install torch-explorer[tensorflow]"


TENSORFLOW = Method(
    "TensorFlow, define and run",
    "The ATen graph of torch.export as a tf.Graph: placeholders and operations first, values later in a session.",
    _capture,
    _missing,
)
