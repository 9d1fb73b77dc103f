"""The command line: explorer demo | run | report | step | dap | diff | repro | trace | import | ranks | operators |
reason | doctor | cache | course | class."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from explorer.core.files import visible
from explorer.core.text import count
from explorer.records.logs.read import LogError, read
from explorer.show.cli.progress import SafeConsole, Terminal, prints_any_text, wide_enough
from explorer.show.cli.step import serve, step
from explorer.show.ranks import Ranks
from explorer.show.record import Record, RecordError
from explorer.show.view import ranks as view
from explorer.show.view.dap import Adapter

if TYPE_CHECKING:
    from explorer.show.comparison import Compared
    from explorer.show.watch import Watch

SUFFIXES = (".explore.json.gz", ".explore.json", ".json.gz", ".json")


FOLDER, FILE = click.Path(path_type=Path, file_okay=False), click.Path(path_type=Path, dir_okay=False)
"""What commands write."""


class CommandError(click.ClickException):
    """An error in one sentence, which may name files and hold words of strangers."""

    def format_message(self) -> str:
        return visible(super().format_message())


class Refused(CommandError):
    """Input that a command cannot work with."""

    exit_code = 2


class Failed(CommandError):
    """Something that should have worked."""

    exit_code = 1


WITH_TORCH = {
    "operators": "operators:operators_command", "reason": "operators:reason_command",
    "doctor": "machine:doctor_command", "cache": "machine:cache_command",
    "course": "course:course_command", "class": "course:class_command",
}  # fmt: skip
"""Commands in modules that import torch, which is most of what a command takes that reads logs."""


class Commands(click.Group):
    """Those that need torch are imported when they are asked for; the others import it where they use it."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted({*super().list_commands(context), *WITH_TORCH})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in WITH_TORCH:
            return super().get_command(context, name)
        module, _, attribute = WITH_TORCH[name].partition(":")
        found: Any = getattr(import_module(f"explorer.show.cli.{module}"), attribute)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="torch-explorer", prog_name="explorer")
@click.pass_context
def main(context: click.Context) -> None:
    """See what torch.compile, and a small compiler like it, do with a program, stage by stage.

    Exit codes: 0 for success, 1 for a failure, 2 for wrong usage or input.
    """
    if context.invoked_subcommand != "run":  # where it is the script's, and what we say goes to standard error
        context.with_resource(prints_any_text())


@main.command("demo", short_help="Compile example models and write their records and pages.")
@click.option("-o", "--out", type=FOLDER, default="demo", show_default=True, help="Folder for the records and pages.")
@click.option("--no-stock", is_flag=True, help="Leave out stock torch.compile, whose cold compiles take minutes.")
@click.option("--open", "open_page", is_flag=True, help="Open the report in a browser.")
def demo_command(out: Path, no_stock: bool, open_page: bool) -> None:
    """Compile a GPT-2 and a small CNN, in inference and training, with this compiler and stock torch.compile.

    \b
    Examples:
      explorer demo
      explorer demo --no-stock --open
      explorer demo --out /tmp/demo
    """
    demo = import_module("explorer.show.demo")
    terminal = Terminal(wide_enough())
    if (missing := demo.without_compiler()) is not None:
        terminal.say(missing)
    if len(demo.cases()) < 4:
        terminal.say(demo.NO_TRANSFORMERS)
    try:
        report: Path = demo.demo(out, terminal, with_stock=not no_stock)
    except OSError as error:
        raise Failed(f"cannot write to {out}: {_message(error)}; choose another folder with -o") from error
    terminal.say(f"Report: {report}")
    if open_page:
        webbrowser.open(report.resolve().as_uri())


@main.command("run", short_help="Run a script and record every compile in it.",
              context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})  # fmt: skip
@click.option("-o", "--out", type=FOLDER, default=".", help="Folder for the record.")
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module's name, as for python -m.")
@click.argument("script", type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run_command(context: click.Context, out: Path, as_module: bool, script: str, arguments: Sequence[str]) -> None:
    """Run SCRIPT as python would and record every compile in it.

    Writes SCRIPT.explore.json.gz and SCRIPT.html, even if the script fails: what torch.compile and explorer.compile
    compiled and recompiled, and why, what failed, what ran eagerly, and how long calls took. Nothing is run twice. The
    exit code is the script's. SCRIPT may be - for standard input. Each rank of torchrun, and each process that the
    script forks and that reaches its end, writes a record of its own. torch is imported before the script starts, so
    set the environment variables that torch reads at import outside the script.

    \b
    Examples:
      explorer run train.py
      explorer run --out records train.py --steps 10
      explorer run -m package.train --steps 10
    """
    runner = import_module("explorer.show.cli.script")
    name = "stdin" if script == runner.STDIN else script.rpartition(".")[2] if as_module else Path(script).stem
    log: Watch = import_module("explorer.show.watch").Watch("stdin" if script == runner.STDIN else Path(script).name)
    out, errors, process = out.absolute(), sys.stderr, os.getpid()  # the script may change its folder and its streams
    if rank := os.environ.get("RANK", ""):
        name += f".rank{rank}"
    try:
        code = runner.run(script, arguments, log, as_module)
    except ImportError as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(f"cannot read {script}: {_message(error)}; expected a Python script") from error
    except SyntaxError as error:
        raise Refused(f"{script} is not a Python script: {error}") from error
    terminal = Terminal(SafeConsole(file=errors))
    record = log.record
    if record.data.compiles or record.data.calls:
        _put(record, out, name if os.getpid() == process else f"{name}.process{os.getpid()}", terminal)
    else:
        terminal.say(
            f"{script} compiled nothing, so there is no record. "
            "The script has to call a function compiled with torch.compile or explorer.compile."
        )
        for note in record.data.notes:
            terminal.say(note)
    context.exit(code)


def _put(record: Record, out: Path, name: str, terminal: Terminal) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with terminal.phase("writing the record"):
            saved = record.save(out / f"{name}.explore.json.gz")
            page = record.to_html(out / f"{name}.html")
    except OSError as error:
        raise Failed(f"cannot write a record to {out}: {_message(error)}; choose another folder with -o") from error
    terminal.console.print(Text(repr(record)), soft_wrap=True)
    terminal.say(f"Record: {saved}\nPage: {page}")


@main.command("report", short_help="Make an HTML page of a record.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=FILE, help="The page; by default next to FILE, with the suffix .html.")
@click.option("--text", "as_text", is_flag=True, help="Print every stage instead of writing a page.")
def report_command(file: Path, out: Path | None, as_text: bool) -> None:
    """Write an HTML page with the viewer, from a FILE with a record or with a comparison of capture methods.

    \b
    Examples:
      explorer report demo/gpt2-training.explore.json.gz
      explorer report train.explore.json.gz -o out.html
      explorer report train.explore.json.gz --text | less
    """
    terminal = Terminal(wide_enough())
    record = _load_comparison(file) or _load(file)
    if as_text:
        terminal.say(record.text())
        return
    target = out or file.with_name(_stem(file) + ".html")
    try:
        with Terminal(SafeConsole(stderr=True)).phase("making the page"):
            page = record.to_html(target)
    except OSError as error:
        raise Failed(f"cannot write the page {target}: {_message(error)}; choose another file with -o") from error
    terminal.say(repr(record))
    terminal.say(f"Page: {page}")


@main.command("step", short_help="Step through a recorded compile.")
@click.option(
    "--compile",
    "compile",
    default="",
    help="The compile, such as f0.1, or with --values or "
    "--fusion a half of it, such as 'f0 backward'; by default the first.",
)
@click.option("--at", type=click.IntRange(min=0), help="Print this step and exit.")
@click.option("--find", "query", help="List the steps that match a query and exit, with 1 if there is none.")
@click.option("--values", "what", flag_value="values", help="Step through the values that kernels wrote, if recorded.")
@click.option("--passes", "what", flag_value="rewrites", help="Step through what passes and lowering replaced.")
@click.option("--fusion", "what", flag_value="tries", help="Step through the fusions that were tried, in order.")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def step_command(
    context: click.Context, file: Path, compile: str, at: int | None, query: str | None, what: str | None
) -> None:
    """Step through the capture in a record FILE, forwards and backwards: the stack and locals before each instruction,
    which step made each node and guard, and where the graph breaks. With an option, step through one call kernel by
    kernel, to the first NaN or the first difference from eager; through the nodes that graph passes replaced; or
    through the fusions that were tried.

    \b
    Examples:
      explorer step softmax.explore.json.gz
      explorer step softmax.explore.json.gz --find break:
      explorer step train.explore.json.gz --compile f0.1 --find "guard:size line:12"
      explorer step train.explore.json.gz --at 31
      explorer step train.explore.json.gz --values --find nan:
    """
    try:
        context.exit(step(_load(file), compile, at, query, what or "steps"))
    except ValueError as error:
        raise Refused(str(error)) from error


@main.command("dap", short_help="Serve a record's steps to a debugger (DAP).")
@click.argument("file", type=click.Path(path_type=Path))
def dap_command(file: Path) -> None:
    """Step through the capture in a record FILE with an editor's debugger, forwards and backwards: a debug adapter on
    standard input and output, for editors that support the Debug Adapter Protocol. Each compile is a thread. Conditions
    of breakpoints, and expressions typed at the debugger's prompt, are queries as for `explorer step --find`.

    \b
    Example, for nvim-dap:
      dap.adapters.explorer = {type="executable", command="explorer", args={"dap", "softmax.explore.json.gz"}}
    """
    try:
        serve(Adapter(_load(file).data), sys.stdin.buffer, sys.stdout.buffer)
    except ValueError as error:
        raise Refused(str(error)) from error


@main.command("repro", short_help="Write a Python file that runs a recorded graph or kernel.")
@click.option("-k", "--kernel", "what", default="", help="A kernel (k0) or a stage with a graph (f0/2); by default the "
              "first captured graph.")  # fmt: skip
@click.option("--compile", "compile", default="", help="The compile that contains it, such as f0.1.")
@click.option("-o", "--out", type=FILE, help="The file; by default it is printed.")
@click.argument("file", type=click.Path(path_type=Path))
def repro_command(file: Path, what: str, compile: str, out: Path | None) -> None:
    """Write a stand-alone Python file that reproduces a graph or a kernel of a record FILE with torch alone. The file
    makes random inputs of the recorded shapes, strides and dtypes, and compares with eager. This command runs nothing.

    \b
    Examples:
      explorer repro softmax.explore.json.gz -o graph.py
      explorer repro softmax.explore.json.gz -k k0 -o kernel.py
    """
    try:
        made = _load(file).repro(what, compile)
        if out is not None:
            out.write_text(made)
    except ValueError as error:
        raise Refused(f"cannot reproduce {what or 'a graph'} of {file}: {error}") from error
    except OSError as error:
        raise Failed(f"cannot write {out}: {_message(error)}; choose another file with -o") from error
    click.echo(f"Written: {out}" if out is not None else made)


@main.command("trace", short_help="Write a trace for ui.perfetto.dev.")
@click.option("-o", "--out", type=FILE, help="The trace; by default next to FILE, with the suffix .trace.json.")
@click.argument("file", type=click.Path(path_type=Path))
def trace_command(file: Path, out: Path | None) -> None:
    """Write the stages of a record FILE, and one call with its kernels, as a trace for ui.perfetto.dev.

    \b
    Examples:
      explorer trace softmax.explore.json.gz
      explorer trace train.explore.json.gz -o train.trace.json
    """
    record = _load(file)
    target = out or file.with_name(_stem(file) + ".trace.json")
    try:
        click.echo(f"Trace: {record.trace(target)}")
    except OSError as error:
        raise Failed(f"cannot write {target}: {_message(error)}; choose another file with -o") from error


@main.command("import", short_help="Make records from logs of PyTorch's own torch.compile.")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--out", type=FOLDER, default=".", show_default=True, help="Folder for the records.")
@click.option("--html", is_flag=True, help="Also write a page of each record, and one of all ranks.")
def import_command(source: Path, out: Path, html: bool) -> None:
    """Make records from logs of PyTorch's own torch.compile, which may be from another machine: SOURCE is a file or
    folder written with TORCH_TRACE (one record for each rank), or a folder written with TORCH_COMPILE_DEBUG=1. For
    several ranks, also prints what differs between them.

    \b
    Examples:
      TORCH_TRACE=/tmp/trace python train.py; explorer import /tmp/trace --html
      explorer import torch_compile_debug/run_2026_11_21_18_29_14_814847-pid_28753
    """
    console = wide_enough()
    try:
        found = [Record(each) for each in read(source)]
        out.mkdir(parents=True, exist_ok=True)
        stem = source.name.removesuffix(".gz").removesuffix(".log") or "log"
        names = [stem if len(found) == 1 else f"{stem}.{number}" for number in range(len(found))]
        for record, name in zip(found, names, strict=True):
            written = [record.save(out / f"{name}.explore.json.gz")]
            written += [record.to_html(out / f"{name}.html")] if html else []
            console.print(Text(f"{record.data.title}: {', '.join(map(str, written))}"))
        ranks = Ranks.of(found, source.name)
        if html and len(found) > 1:
            console.print(Text(f"all ranks: {ranks.to_html(out / f'{stem}.ranks.html')}"))
    except LogError as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(f"cannot open {error.filename or source}: {_message(error)}") from None
    show_ranks(console, ranks)


@main.command("ranks", short_help="Show what differs between the ranks of a distributed job.")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=FILE, help="Also write an HTML page.")
def ranks_command(sources: Sequence[Path], out: Path | None) -> None:
    """Show what differs between the ranks of a distributed job. SOURCES are logs, folders of logs (as for
    `explorer import`) or records.

    \b
    Examples:
      explorer ranks /tmp/trace
      explorer ranks trace.0.explore.json.gz trace.1.explore.json.gz -o ranks.html
    """
    console = wide_enough()
    try:
        ranks = Ranks.load(*sources)
        if out is not None:
            console.print(Text(f"Page: {ranks.to_html(out)}"))
    except (LogError, RecordError) as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(f"cannot open {error.filename or sources[0]}: {_message(error)}") from None
    show_ranks(console, ranks)


def show_ranks(console: Console, ranks: Ranks) -> None:
    """What each rank compiled, and where the others differ from the first."""
    data = ranks.data
    shown = Table(title=data.title, title_justify="left", header_style="bold")
    for heading in ("record", "compiles", "recompiles", "graphs", "guards", "breaks", "compile time", "error"):
        shown.add_column(heading)
    for each in data.ranks:
        counts = (each.compiles, each.recompiles, each.graphs, each.guards, each.breaks)
        shown.add_row(*map(Text, (each.name, *map(str, counts), view.compiling(each), each.error)))
    console.print(shown)
    if len(data.ranks) > 1:
        console.print(Text(view.differences(data)), soft_wrap=True)


@main.command("diff", short_help="Compare two records.")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--exit-code", is_flag=True, help="Exit with 1 if the records differ.")
@click.option("--lines", type=click.IntRange(min=0), default=2000, show_default=True, help="The most lines to show.")
@click.pass_context
def diff_command(context: click.Context, before: Path, after: Path, exit_code: bool, lines: int) -> None:
    """Compare two records, such as of two versions of torch or two machines: versions, settings, graphs, kernels and
    times, then a diff of each stage's text.

    \b
    Examples:
      explorer diff before.explore.json.gz after.explore.json.gz
      explorer diff --exit-code expected.explore.json now.explore.json
    """
    found = _load(before).diff(_load(after))
    console = wide_enough()
    console.print(Text("\n".join(found.summary)), soft_wrap=True)
    shown = Table(header_style="bold")
    for heading in ("stage", "lines added", "lines removed"):
        shown.add_column(heading)
    left = lines
    for name, changed in found.stages[:lines]:
        added, removed = (sum(line.startswith(sign) for line in changed[2:]) for sign in "+-")
        shown.add_row(Text(name), *(str(count or "") for count in (added, removed)))
    if found.stages:
        console.print(shown)
    for name, changed in found.stages:
        if changed[:left]:
            console.print(Text(f"\n{name}", style="bold"))
            console.print(Syntax("\n".join(changed[:left]), "diff", background_color="default"))
            left -= len(changed[:left])
    if (more := sum(len(changed) for _, changed in found.stages) - lines) > 0:
        console.print(Text(f"... and {count(more, 'more line')}, which --lines {lines + more} shows"))
    if found.stages:
        console.print(Text(f"{len(found.changed)} of {len(found.stages)} stages differ"))
    context.exit(1 if exit_code and found.changed else 0)


def _load_comparison(file: Path) -> Compared | None:
    """The comparison of capture methods in a file; None where it holds something else."""
    comparison = import_module("explorer.show.comparison")
    try:
        found: Compared | None = comparison.Compared.load(file) if comparison.Compared.is_in(file) else None
        return found
    except RecordError as error:
        raise Refused(str(error)) from error
    except OSError:  # the record's reader says what is wrong with a file that cannot be read
        return None


def _load(file: Path) -> Record:
    try:
        return Record.load(file)
    except RecordError as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(f"cannot read {file}: {_message(error)}; expected a record (*.explore.json.gz)") from error


def _message(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _stem(file: Path) -> str:
    return next((file.name.removesuffix(suffix) for suffix in SUFFIXES if file.name.endswith(suffix)), file.stem)
