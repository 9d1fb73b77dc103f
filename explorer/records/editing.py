"""Edit and see: the explored call compiled again with changed source, options, passes or fusions, without calling
anything of the program, unless `run` asks for it.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec
import torch

from explorer.compiler.autograd import CLEANUP
from explorer.compiler.capture import hook, reasons
from explorer.compiler.capture.entry import ONE_AT_A_TIME, call_of, collector_paused
from explorer.compiler.capture.values.modules import calls_forward
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.core.recorder import SILENT, Progress, Recorder, compile_scope, recording
from explorer.core.rules import in_force, is_filled
from explorer.ir import record as data
from explorer.ir.capture import InputFrame
from explorer.ir.edit import (
    DEFINITION,
    RERUN,
    EditableFunction,
    EditedSource,
    EditRefused,
    ProgramEdit,
    edited,
    functions,
    parsed,
)
from explorer.ir.program import Target
from explorer.records.check.isolate import undone
from explorer.records.check.trial import Trial, unnoticed
from explorer.records.data.exploration import Exploration
from explorer.records.exploration import contents
from explorer.records.stock.breaks import is_of_library
from explorer.records.stock.run import unwrapped

NOT_RUN = "Compiled after an edit and not run, so neither compared with eager nor timed."
BREAKS = "The code after a graph break is compiled when it runs: run the edited program to see it."
UNCHANGED = EditedSource()
FIXED = ("edit", "rules", "backend")
"""Fields of Config that are no options of an edit."""


Called = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]
"""A function and its arguments."""


@dataclass(frozen=True)
class ExploredProgram:
    """What a record is of. It can be compiled again, with the objects that it reads as they are by now."""

    config: Config
    record: data.RecordData
    again: Callable[..., Exploration]
    """What explores a call: takes a function, its arguments, a configuration, a name and a progress."""
    grad: bool | None

    def program(self, source: EditedSource) -> Called:
        """What is called, where it is of changed source."""
        raise NotImplementedError

    def body(self, fn: types.FunctionType, source: EditedSource) -> types.CodeType:
        """The code of what is called."""
        return source.code_of(fn)

    def affected(self, source: EditedSource) -> bool:
        """Whether a compile met the changed source."""
        return bool(source.functions)

    def lines(self, file: str) -> list[str]:
        return [line.rstrip("\n") for line in linecache.getlines(file)]

    def functions(self) -> list[EditableFunction]:
        """The functions that were compiled and can be edited: the user's, not libraries'."""
        compiled: dict[str, set[int]] = {}
        for compile in self.record.compiles:
            for code in compile.codes:
                if not is_of_library(code.file):
                    compiled.setdefault(code.file, set()).add(code.line)
        return [each for file in compiled for each in functions(file, self.lines(file), compiled[file])]

    def changed(self, function: EditableFunction, text: str) -> EditedSource:
        before = self.lines(function.file)
        return edited(function.file, "\n".join(before), function.changed_to(text, before))

    def named(self, name: str) -> EditableFunction:
        """A function by its name, or by the last part of it. Raises EditRefused."""
        known = self.functions()
        found = [each for each in known if name in (each.name, each.name.rpartition(".")[2])]
        if len(found) != 1:
            raise EditRefused(
                f"{name} names {len(found) or 'none'} of the functions that were compiled: "
                f"{', '.join(each.name for each in known) or 'the record has the source of none'}"
            )
        return found[0]

    def configured(
        self, source: EditedSource, forbid: Sequence[Sequence[str]], without: Sequence[str], options: Mapping[str, Any]
    ) -> Config:
        """Raises EditRefused naming what does not exist and what does."""
        known = [field.name for field in fields(Config) if field.name not in FIXED]
        passes = [stage.name for stage in CLEANUP]
        for given, there in ((options, known), (without, passes)):
            if unknown := [name for name in given if name not in there]:
                raise EditRefused(f"no {', '.join(unknown)}; there are: {', '.join(there)}")
        chosen = dict(options)
        if isinstance(chosen.get("target"), str):
            chosen["target"] = Target.parse(chosen["target"])
        forbidden = tuple(each for pair in forbid for each in self._graphs(pair))
        return replace(self.config, **chosen, edit=ProgramEdit(source, tuple(without), forbidden))

    def _graphs(self, pair: Sequence[str]) -> list[tuple[str, str, str]]:
        """A pair of operations with the graphs that have both, where no graph is named."""
        if len(pair) == 3:
            return [(pair[0], pair[1], pair[2])]
        halves = [half for compile in self.record.compiles for half in compile.halves]
        graphs = [half.name for half in halves if {*pair} <= {each.id for each in half.operations}]
        if len(pair) != 2 or not graphs:
            raise EditRefused(f"forbid takes pairs of operations of one graph, not {tuple(pair)}")
        return [(graph, pair[0], pair[1]) for graph in graphs]

    def compiled(self, config: Config, progress: Progress = SILENT) -> data.RecordData:
        """The record of the call, compiled and not run. Raises EditRefused where compiling raises, or the program
        would."""
        frame, recorder = self.frame(config.edit.source), Recorder(progress)
        title = frame.code.co_qualname
        grad = torch.is_grad_enabled() and self.grad is not False
        try:
            with (
                ONE_AT_A_TIME, unnoticed(), recording(recorder), compile_scope(frame.id, title), collector_paused(),
                hook.modes_put_aside(), in_force(config.rules), torch.set_grad_enabled(grad),
            ):  # fmt: skip
                compile_frame(frame, config)
        except EditRefused:
            raise
        except Exception as error:
            raise EditRefused(f"{type(error).__name__}: {error}".partition("\n")[0]) from error
        made = contents(recorder, config, f"{self.record.title} (edited)")
        self._check(made, config.edit)
        breaks = any(compile.breaks for compile in made.compiles)
        return msgspec.structs.replace(made, notes=(*made.notes, NOT_RUN, *([BREAKS] if breaks else [])))

    def _check(self, made: data.RecordData, edit: ProgramEdit) -> None:
        for compile in made.compiles:
            for each in compile.breaks:
                if each.why.code in (reasons.RAISES, reasons.OP_RAISED):
                    place = f"line {each.span.line}: " if each.span else ""
                    raise EditRefused(f"{place}it raises {each.why.detail}".partition("\n")[0])
        there = {half.name: {each.id for each in half.operations} for c in made.compiles for half in c.halves}
        for graph, *pair in edit.forbid:
            if absent := [id for id in pair if id not in there.get(graph, ())]:
                raise EditRefused(f"after the change, {graph} has no operation {' or '.join(absent)}")

    def frame(self, source: EditedSource) -> InputFrame:
        """The frame that a call of the program starts with, which is not called. Raises EditRefused."""
        fn: Any
        bound: list[Any] = []
        fn, args, kwargs = self.program(source)
        if isinstance(fn, torch.nn.Module) and calls_forward(fn) and "forward" not in vars(fn):
            fn = fn.forward
        if isinstance(fn, types.MethodType):
            fn, bound = fn.__func__, [fn.__self__]
        if not isinstance(fn, types.FunctionType):
            method = None if isinstance(fn, torch.nn.Module) else type(fn).__call__
            fn, bound = (method, [fn]) if isinstance(method, types.FunctionType) else (call_of(fn), [])
        plain = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        plain.__kwdefaults__ = fn.__kwdefaults__
        given = inspect.signature(plain, follow_wrapped=False).bind(*bound, *args, **kwargs)
        given.apply_defaults()
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        held = {name: cell.cell_contents for name, cell in cells.items() if is_filled(cell)}
        locals = {**given.arguments, **held}
        code = self.body(fn, source)
        cells = {name: cells[name] for name in code.co_freevars}
        return InputFrame("f0", code, locals, fn.__globals__, vars(builtins), cells, devices=hook.devices())

    def changes(self, text: str, name: str) -> EditedSource:
        """The source with `text`, a `def`, in the place of the function `name`, or of the one of its name."""
        if not text:
            return UNCHANGED
        body = parsed(textwrap.dedent(text)).body
        if len(body) != 1 or not isinstance(body[0], DEFINITION):
            raise EditRefused("source= takes the changed text of one whole function, from its decorators or `def` on")
        function = self.named(name or body[0].name)
        return self.changed(function, text)

    def edit(
        self,
        source: EditedSource = UNCHANGED,
        *,
        forbid: Sequence[Sequence[str]] = (),
        without: Sequence[str] = (),
        run: bool = False,
        progress: Progress = SILENT,
        **options: object,
    ) -> Exploration:
        """The record of the program with these changes. Raises EditRefused."""
        if self.record.engine == "stock" and not run:
            raise EditRefused("stock compiles only code that runs: run the edited program")
        config = self.configured(source, forbid, without, options)
        made = self.compiled(config, SILENT if run else progress)
        if source.file and not self.affected(source):
            raise EditRefused("the changed function is not compiled here, so nothing would change")
        if not run:
            return Exploration(made)
        with in_place(source):
            return self.again(*self.program(source), config, name=made.title, progress=progress)


@dataclass(frozen=True)
class ExploredCall(ExploredProgram):
    """A call of a function, which may itself be what a compiler returned."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def program(self, source: EditedSource) -> Called:
        return unwrapped(Trial(self.fn, self.args, self.kwargs))[0].fn, self.args, self.kwargs


@contextmanager
def in_place(source: EditedSource) -> Iterator[None]:
    """Inside, the functions that an edit changes run the changed code. Raises EditRefused where one cannot."""
    found = [(each, each.__code__, source.code(each.__code__)) for each in source.functions.values()]
    for function, old, new in found:
        if len(old.co_freevars) != len(new.co_freevars):
            raise EditRefused(f"{function.__name__} uses fewer variables of the function around it; {RERUN}")

    def put_back() -> None:
        for function, old, _ in found:
            function.__code__ = old

    with undone(put_back):
        for function, _, new in found:
            function.__code__ = new
        yield
