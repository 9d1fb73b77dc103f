"""What the terminal shows while something takes long: what it is at, and for how long already."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from explorer.core.files import visible
from explorer.core.text import duration
from explorer.show.view.html import COLUMNS, IndexRow, cells

WORTH_SAYING = 2.0
"""What takes more seconds is printed with its time."""

LOG_WIDTH = 150
"""Columns of what is printed to a file."""

FIELDS = ("description", "fields[step]")


@contextmanager
def prints_any_text() -> Iterator[None]:
    """Inside, standard output takes characters that its encoding lacks, and writes them as standard error does: names,
    source and the messages of compilers may be in any language."""
    stream = sys.stdout
    errors = stream.errors if isinstance(stream, io.TextIOWrapper) else None
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        if isinstance(stream, io.TextIOWrapper) and not stream.closed:
            stream.reconfigure(errors=errors)


class SafeConsole(Console):
    """A console that obeys no control characters in what it is given: much of that comes from strangers."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def wide_enough() -> SafeConsole:
    """Standard output; where it is no terminal, with room for tables."""
    return SafeConsole(width=None if sys.stdout.isatty() else LOG_WIDTH)


class Terminal:
    """Tells a person at a terminal, by a line that keeps moving; where there is none (a log), by a line a phase."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[str], None]]:
        started = time.perf_counter()
        if self.console.is_terminal:
            name_column, step_column = (TextColumn(f"{{task.{field}}}", markup=False) for field in FIELDS)
            columns = (SpinnerColumn(), name_column, TimeElapsedColumn(), step_column)
            with Progress(*columns, console=self.console, transient=True) as progress:
                task = progress.add_task(name, total=None, step="")
                yield lambda step: progress.update(task, step=step)
        else:
            self.say(f"{name} ...")
            yield lambda step: None
        if (seconds := time.perf_counter() - started) > WORTH_SAYING:
            self.say(f"{name}: {duration(seconds)}")

    def table(self, entries: Sequence[IndexRow]) -> None:
        """One column an entry: there are more facts than entries, and lines are short."""
        shown = Table(show_header=True, header_style="bold")
        rows = zip(COLUMNS, *map(cells, entries), strict=True)
        for heading in next(rows):
            shown.add_column(Text(heading), overflow="fold")
        for name, *row in rows:
            if any(row):
                shown.add_row(Text(name), *map(Text, row))
        self.console.print(shown)

    def say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)
