"""The magics: `%%explore`, `%explore`, `%explore_diff`, `%explore_config`, `%explore_report`, `%%step`; `%%compare` is
beside."""

from __future__ import annotations

import argparse
import ast
import linecache
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from explorer.records.exploration import ENGINES
from explorer.records.stock.hook import is_watched
from explorer.show.notebook.cell import Plan, plan
from explorer.show.notebook.comparing import ComparingMagics
from explorer.show.notebook.instrument import Instrument, Watched, mark
from explorer.show.notebook.live import REPEATED, Live, WhenCompiled
from explorer.show.notebook.session import Ahead, Options, Session
from explorer.show.record import Record, RecordError
from explorer.show.view.dap import Debugging
from explorer.show.view.glossary import PANES
from explorer.show.view.queries import WAYS, Queried
from explorer.show.watch import Watch

KEPT_RECORDS = 30
"""The notebook's last explorations, which are live and which %explore_diff and %explore_report know."""

KEPT_BYTES = 1 << 30
"""Of copies for runs with other sizes, over all live records; the oldest go first."""

MOST_STEPS = 200
"""Steps that %step prints of one compile."""

RELEASED = "its tensors were released to save memory; run the cell again"


def unquoted(text: str) -> str:
    """Without the quotes that hold several words together: IPython leaves them on."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


OPTIONS = (
    argument("--engine", choices=ENGINES, help="explorer (the default), stock torch.compile, or both in one record"),
    argument(
        "--grad", action=argparse.BooleanOptionalAction, default=None,
        help="also run the backward of the sum of the result; by default if the result requires grad",
    ),
    argument(
        "--dynamic", action=argparse.BooleanOptionalAction, default=None,
        help="make all sizes symbolic, or none; by default those that change between calls",
    ),
    argument("--target", help="generate code for another machine, such as cuda:sm_90; it is shown but not run"),
    argument(
        "--stage", dest="panes", action="append", choices=PANES, metavar="NAME",
        help=f"open this pane; may be given several times. There are: {', '.join(PANES)}",
    ),
    argument(
        "--time", action=argparse.BooleanOptionalAction, default=None,
        help="time eager and compiled code in turn; by default if the statement takes less than 5 s",
    ),
    argument(
        "--fixes", action=argparse.BooleanOptionalAction, default=None,
        help="if the graph breaks, try known fixes; by default rewrites of branches that break our graph, if the "
        "statement takes less than 1 s",
    ),
    argument(
        "--values", action="store_true", default=None,
        help="also run kernel by kernel, and record what each writes beside what eager computes",
    ),
    argument("--name", type=unquoted, help="the name of the record; by default the statement"),
    argument(
        "--save", type=unquoted, metavar="FILE",
        help="write the record to a file, NAME.explore.json or NAME.explore.json.gz",
    ),
    argument("-o", dest="out", metavar="VAR", help="store the record in a variable"),
)  # fmt: skip


def options(function: Callable[..., object]) -> Callable[..., Any]:
    """The options of an exploration, in front of the magic's own arguments."""
    for each in reversed(OPTIONS):
        function = each(function)
    return function


@dataclass(frozen=True)
class NotebookRecord:
    """A record of this notebook; `cell` is the frontend's id of its cell, or what stands for it."""

    record: Record
    cell: str
    live: Live


@magics_class
class ExplorerMagics(Magics):
    """`begin` and `before` are called by the code of a cell that `instrument` has changed."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.defaults = Options()
        self.kept: deque[NotebookRecord] = deque()
        self._plans: dict[int, Plan] = {}
        self._numbers = count()
        self._watched: Watched | None = None
        self.instrument = Instrument(self._keep)
        self.ahead = Ahead()
        self.debugging: Debugging | None = None

    # --------------------------------------------------------------------------------------------- a cell that runs

    def _keep(self, made: Plan) -> int:
        number = next(self._numbers)
        self._plans = {number: made}
        return number

    def begin(self, line: str, number: int | None = None) -> None:
        """The first line of a cell of `%%explore`. Raises UsageError."""
        __tracebackhide__ = True
        file = sys._getframe(1).f_code.co_filename
        show_magic(file, line)
        given = parse_argstring(self.explore, self.shell.var_expand(line, 1))
        if given.expression:
            raise UsageError(f"%%explore takes options here, and statements below: not {' '.join(given.expression)!r}")
        chosen = self._chosen(given)
        self._watched = None
        if number is not None:
            result = self.shell.displayhook.exec_result
            self._watched = watched = Watched(self._plans.pop(number), chosen, self.shell.user_ns, file, result)
            if not watched.plan.why_not and watched.compiles() and not is_watched():
                title = chosen.name or watched.plan.title
                watched.view = WhenCompiled(title, chosen.panes)
                watched.watch = Watch(title, watched.view).__enter__()

    def before(self, number: int, index: int) -> None:
        """Statement `index` of the cell is about to run, and may be where what is explored starts."""
        __tracebackhide__ = True
        try:
            if self._watched is not None:
                self._watched.before(index)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # without the frames of what was interrupted

    def ended(self, result: Any) -> None:
        """IPython's event at the end of a cell: the exploration follows."""
        watched = self._watched
        if watched is None or result is None or result is not watched.result:
            return
        self._watched = None
        watched.waiting.end()
        cell = getattr(result.info, "cell_id", None) or watched.file
        if watched.watch is not None:
            watched.watch.__exit__(None, result.error_in_exec, None)
            view = watched.view
            if view is not None and view.shown and (not result.success or watched.watch.calls > watched.called):
                record = watched.watch.contents
                record = msgspec.structs.replace(record, notes=(*record.notes, REPEATED))
                live = view.end(record)
                self._keep_record(Record(record, live.widget.model_id), watched.options, cell, live)
                return
        if result.success:
            self._explore(watched, cell)

    def starts(self, info: object) -> None:
        """IPython's event before a cell: runs in the background make way."""
        for kept in self.kept:
            kept.live.make_way()

    def _explore(self, watched: Watched, cell: str) -> None:
        why_not = watched.plan.why_not or watched.why_not
        if why_not or watched.seen is None:
            print(f"Nothing was explored: {why_not or 'the statement to explore was not reached.'}")
            return
        self.ahead.drop()
        session = Session(watched)
        self._keep_record(Record(session.run(), session.live.widget.model_id), watched.options, cell, session.live)

    def _keep_record(self, record: Record, chosen: Options, cell: str, live: Live) -> None:
        self._make_room(cell)
        self.kept.append(NotebookRecord(record, cell, live))
        if chosen.out is not None:
            self.shell.user_ns[chosen.out] = record
        if chosen.save is not None:
            try:
                print(f"Saved to {record.save(Path(chosen.save).expanduser())}")
            except (OSError, ValueError) as error:
                print(f"Not saved: {error}", file=sys.stderr)

    def _make_room(self, cell: str) -> None:
        """For another record, of this cell."""
        while len(self.kept) >= KEPT_RECORDS:
            self.kept.popleft().live.close()
        total = 0
        for kept in reversed(self.kept):
            total += kept.live.bytes
            if kept.cell == cell:
                kept.live.release("the cell was run again")
            elif total > KEPT_BYTES:
                kept.live.release(RELEASED)

    def _chosen(self, given: argparse.Namespace) -> Options:
        """The notebook's defaults, with what was given in their place. Raises UsageError."""
        known = {field.name for field in fields(Options)}
        found = {name: value for name, value in vars(given).items() if name in known and value is not None}
        if "panes" in found:
            found["panes"] = tuple(found["panes"])
        if not str(found.get("out", "record")).isidentifier():
            raise UsageError(f"-o takes the name of a variable, not {found['out']!r}")
        chosen = replace(self.defaults, **found)
        try:
            _ = chosen.config
        except ValueError as error:
            raise UsageError(str(error)) from None
        return chosen

    # ---------------------------------------------------------------------------------------------------- the magics

    @magic_arguments()
    @options
    @argument("expression", nargs=argparse.REMAINDER, help="%%explore only: what to evaluate and explore")
    @line_cell_magic
    def explore(self, line: str, cell: str | None = None) -> Any:
        """Show what a compiler makes of a cell's last statement.

        The cell runs as it would without the magic, once. Its last statement is then compiled as a function of the
        names that it reads, run on copies of what it read, compared with eager and timed; a viewer shows every stage.
        What may change something that cannot be copied (a file, a generator, a library's own state) is compiled and
        shown, and not run again; the record says why.

        Where the cell calls `.backward()`, what is explored begins with the statement of the cell that first gives a
        value with a gradient, and expressions after the call, such as `optimizer.step()`, are left out. Where the last
        line is a bare name, the statement that assigned it is explored.

        Examples
        --------
        ::

            %%explore
            y = torch.relu(x * w).sum(-1)

            %%explore
            loss = F.cross_entropy(model(x), target)
            loss.backward()

            %%explore --engine both --stage code --stage timing -o record
            y = model(x)

            %%explore --target cuda:sm_90 --no-time --save softmax.explore.json.gz
            torch.softmax(x, -1)

            %explore torch.softmax(x, -1)
            y = %explore --dynamic model(x)
        """
        __tracebackhide__ = True
        if cell is not None:
            return self._nested(line, cell)
        given = parse_argstring(self.explore, line)
        text = rest_of(line, given.expression)
        chosen = self._chosen(given)
        if not text:
            raise UsageError("%explore takes an expression; %%explore takes a cell")
        try:
            body = ast.parse(text).body
            if len(body) != 1 or not isinstance(body[0], ast.Expr):
                raise UsageError("%explore takes one expression; give statements to %%explore")
            code = compile(ast.Expression(body[0].value), "", "eval")
        except SyntaxError as error:
            raise UsageError(f"%explore takes an expression: {error.msg} in {text!r}") from None
        file = self.shell.compile.cache(text, self.shell.execution_count)
        code = code.replace(co_filename=file)
        made = plan([body[0]])
        watched = Watched(made, chosen, self.shell.user_ns, file)
        try:
            for index in made.starts:
                watched.before(index)
            value = eval(code, self.shell.user_ns)
        finally:
            watched.waiting.end()
        self._explore(watched, f"%explore {text}")
        return value

    def _nested(self, line: str, cell: str) -> None:
        if cell.lstrip().startswith("%%"):
            magic = cell.split()[0]
            raise UsageError(f"%%explore takes statements, not {magic}; write {magic} above %%explore")
        self.shell.run_cell(f"%%explore {line}\n{cell}")

    @magic_arguments()
    @argument(
        "records", nargs="*", type=unquoted, metavar="RECORD", help="a variable that holds a record, or a record's file"
    )
    @line_magic
    def explore_diff(self, line: str) -> Any:
        """Show two records side by side, stage by stage.

        Without arguments: the last two explorations of the cell that was explored last, before and after an edit.

        Examples
        --------
        ::

            %explore_diff
            %explore_diff before after
            %explore_diff monday.explore.json.gz record
        """
        named = parse_argstring(self.explore_diff, line).records
        if len(named) not in (0, 2):
            raise UsageError(f"%explore_diff takes two records or none, not {len(named)}")
        before, after = (self._record(name) for name in named) if named else self._edited()
        return before.diff(after)

    def _edited(self) -> tuple[Record, Record]:
        if not self.kept:
            raise UsageError("nothing has been explored in this notebook yet")
        *earlier, last = self.kept
        same = [kept for kept in earlier if kept.cell == last.cell]
        if not same:
            raise UsageError("the last cell was explored only once; edit it and run it again, or name two records")
        return same[-1].record, last.record

    def _record(self, name: str) -> Record:
        found = self.shell.user_ns.get(name)
        if isinstance(found, Record):
            return found
        if not Path(name).expanduser().is_file():
            raise UsageError(f"{name} is neither a variable with a record nor a record's file")
        try:
            return Record.load(Path(name).expanduser())
        except (RecordError, OSError) as error:
            raise UsageError(str(error)) from None

    @magic_arguments()
    @options
    @argument("--reset", action="store_true", help="first reset all options to their defaults")
    @line_magic
    def explore_config(self, line: str) -> None:
        """Set options for all explorations of this notebook that do not give their own, and show them.

        Examples
        --------
        ::

            %explore_config --engine both --no-time
            %explore_config --reset
            %explore_config
        """
        given = parse_argstring(self.explore_config, line)
        if given.reset:
            self.defaults = Options()
        self.defaults = self._chosen(given)
        set_by_user = {f.name: v for f in fields(Options) if (v := getattr(self.defaults, f.name)) != f.default}
        print(
            ", ".join(f"{name}={value!r}" for name, value in set_by_user.items()) or "all options have their defaults"
        )

    @magic_arguments()
    @argument("file", type=unquoted, help="the page to write, such as report.html")
    @argument(
        "record",
        nargs="?",
        type=unquoted,
        help="a variable that holds a record, or a record's file; by default the last one",
    )
    @line_magic
    def explore_report(self, line: str) -> None:
        """Write one HTML file with a record and its viewer, which needs neither a network nor this notebook.

        Examples
        --------
        ::

            %explore_report softmax.html
            %explore_report before.html record
        """
        given = parse_argstring(self.explore_report, line)
        if given.record is None and not self.kept:
            raise UsageError("nothing has been explored in this notebook yet")
        record = self.kept[-1].record if given.record is None else self._record(given.record)
        try:
            print(f"Wrote {record.to_html(Path(given.file).expanduser())}")
        except OSError as error:
            raise UsageError(f"cannot write the file: {error}") from None

    @line_cell_magic
    def step(self, line: str, cell: str | None = None) -> None:
        """Step through the capture of a cell: explore it with the pane Bytecode open. `%step` prints steps of the last
        record: those that a query finds, or the one of a number; without either, how many there are. `%step --values`
        prints what each kernel wrote and what eager computes (`%%explore --values`), `%step --passes` with what the
        passes over the graph replaced, `%step --fusion` with what fusion tried. `%step --debugger` goes through the
        capture in JupyterLab's debugger, where that is on, with two more buttons there, which go back.

        A query is made of terms that all hold: `KEY:TEXT`, `KEY=TEXT`, `NUMBER>3`, with the keys op, line, function,
        depth, node, input, guard, effect, symbol, break, restart, top, stack, local, step, nodes and attempt.

        Examples
        --------
        ::

            %%step
            y = model(x)

            %step break:
            %step guard:size line:12
            %step 31
            %step --values nan:
            %step --debugger
        """
        if cell is not None:
            self.shell.run_cell(f"%%explore --stage bytecode {line}\n{cell}")
            return
        if not self.kept:
            raise UsageError("nothing has been explored in this notebook yet")
        record = self.kept[-1].record
        if line.strip() == "--debugger":
            self._debug(record)
            return
        way, _, rest = line.strip().partition(" ")
        what = {"--values": "values", "--passes": "rewrites", "--fusion": "tries"}.get(way, "steps")
        asked = line.strip() if what == "steps" else rest.strip()
        found: Sequence[Queried[Any, Any]] = getattr(record, what)
        for steps in found:
            try:
                hits = [int(asked)] if asked.isdigit() else steps.find(asked) if asked else []
            except ValueError as error:
                raise UsageError(str(error)) from None
            print(steps.summary())
            for at in hits[:MOST_STEPS]:
                if at < len(steps):
                    print(steps.text(at) if len(hits) == 1 else steps.line(at))
            if len(hits) > MOST_STEPS:
                print(f"... and {len(hits) - MOST_STEPS} more")
        if not found:
            print(f"The last record has no {what}. {WAYS[what]}.")

    def _debug(self, record: Record) -> None:
        if self.debugging is not None:
            self.debugging.end()
        kernel = getattr(self.shell, "kernel", None)
        try:
            self.debugging = Debugging(getattr(kernel, "debugger", None), record.data)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self.debugging.begin()


def rest_of(line: str, words: list[str]) -> str:
    """The end of the line that `words` are the words of, as it was written."""
    position = end = len(line)
    for word in reversed(words):
        position = line.rindex(word, 0, end)
        end = position
    return line[position:].strip() if words else ""


def show_magic(file: str, line: str) -> None:
    """Tracebacks show a cell's first line as it was written, and not the call that it became."""
    entry = linecache.cache.get(file)
    if entry is not None and len(entry) == 4 and entry[2]:
        shown = [f"# %%explore {line}".rstrip() + "\n", *entry[2][1:]]
        linecache.cache[file] = (entry[0], entry[1], shown, entry[3])


def load(shell: InteractiveShell) -> None:
    """Registers the magics in a shell, in place of those of an earlier load."""
    unload(shell)
    magics = ExplorerMagics(shell)
    shell.register_magics(magics, ComparingMagics(shell))
    shell.input_transformers_cleanup.append(mark)
    shell.ast_transformers.append(magics.instrument)
    shell.events.register("pre_run_cell", magics.starts)
    shell.events.register("post_run_cell", magics.ended)
    shell.events.register("pre_run_cell", magics.ahead.starts)
    shell.events.register("post_run_cell", magics.ahead.ended)


def unload(shell: InteractiveShell) -> None:
    magics = shell.magics_manager.registry.pop("ExplorerMagics", None)
    if magics is None:
        return
    shell.input_transformers_cleanup.remove(mark)
    shell.ast_transformers.remove(magics.instrument)
    shell.events.unregister("pre_run_cell", magics.starts)
    shell.events.unregister("post_run_cell", magics.ended)
    shell.events.unregister("pre_run_cell", magics.ahead.starts)
    shell.events.unregister("post_run_cell", magics.ahead.ended)
    magics.ahead.drop()
    if magics.debugging is not None:
        magics.debugging.end()
    for kept in magics.kept:
        kept.live.close()
