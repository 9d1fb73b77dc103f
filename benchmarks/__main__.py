"""`python -m benchmarks [NAME...]`: run benchmarks, print their tables and the figures they must reach."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import (
    architecture,
    capture_time,
    classroom,
    cold,
    correctness,
    counts,
    edit,
    gpu,
    lessons,
    methods,
    models,
    operators,
    provenance,
    record_size,
    recording,
    situations,
    size,
    speed,
    stock,
    viewer,
    watch,
)
from benchmarks.fuzz.command import fuzz
from benchmarks.hostile.command import hostile
from benchmarks.report import Report, Selection
from explorer.records.environment import describe

BENCHMARKS = {
    "cold": cold.run,
    "capture_time": capture_time.run,
    "record_size": record_size.run,
    "recording": recording.run,
    "edit": edit.run,
    "correctness": correctness.run,
    "provenance": provenance.run,
    "speed": speed.run,
    "gpu": gpu.run,
    "stock": stock.run,
    "methods": methods.run,
    "situations": situations.run,
    "viewer": viewer.run,
    "operators": operators.run,
    "counts": counts.run,
    "fullgraph": counts.run_whole,
    "models": models.run,
    "watch": watch.run,
    "size": size.run,
    "architecture": architecture.run,
    "classroom": classroom.run,
    "lessons": lessons.run,
}

LOG_WIDTH = 150
"""Columns of the tables where they go to a file."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("-k", "part", default="", help="Only programs whose name holds this.")
@click.option("--minutes", type=float, help="How long a benchmark that draws its programs goes on.")
@click.option("--seed", type=int, help="What it draws them from; by default the date.")
@click.option("--sequences", type=int, help="How many call sequences it draws.")
@click.option("--ops", default="", help="Only these operators: their names, with commas between.")
@click.option("--dtypes", default="", help="Only these dtypes, likewise.")
@click.option("--samples", default=3, help="Of each operator in a dtype, at most so many of torch's samples.")
@click.option("--variants", default=3, help="And so many made from them: other strides, sizes, values, out=.")
@click.option("--shard", default="1/1", help="Only the first, second, ... of so many equal parts: 2/4.")
@click.option("--results", type=click.Path(path_type=Path), help="The file that a run goes on from and adds to.")
@click.option("--again", is_flag=True, help="Run once more what is not right in that file.")
@click.option("--margin", default=1.0, help="Of lessons: a cell and a check may take so many times their seconds.")
def main(
    names: tuple[str, ...], part: str, minutes: float | None, seed: int | None, sequences: int | None,
    ops: str, dtypes: str, samples: int, variants: int, shard: str, results: Path | None, again: bool,
    margin: float,
) -> None:  # fmt: skip
    """Measure the project's figures; all of them where no NAME is given. Exits with 1 where one is missed.

    \b
    Examples:
      python -m benchmarks cold record_size
      python -m benchmarks speed -k softmax
      python -m benchmarks operators --ops add,nn.functional.conv2d --dtypes float16 --minutes 5
      python -m benchmarks operators --seed 7 --shard 2/4 --results found.jsonl
      python -m benchmarks counts --sequences 1000 --seed 1
      python -m benchmarks fuzz --help
      python -m benchmarks hostile --records 2000 --logs 200 --pages 300
    """
    console = Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
    progress = Console(stderr=True)
    console.print(Text(", ".join(f"{name} {value}" for name, value in describe().items())))
    missed = False
    number, _, of = shard.partition("/")
    for name in names or BENCHMARKS:
        with progress.status(name) as status:
            chosen = Selection(
                part, lambda at, name=name: status.update(f"{name}: {at}"), minutes, seed,
                tuple(filter(None, ops.split(","))), tuple(filter(None, dtypes.split(","))),
                samples, variants, (int(number), int(of)), results, again, sequences, margin,
            )  # fmt: skip
            report = BENCHMARKS[name](chosen)
        show(console, report)
        missed = missed or not all(aim.met for aim in report.aims)
    sys.exit(missed)


def show(console: Console, report: Report) -> None:
    table = Table(title=report.title, title_justify="left", header_style="bold")
    for position, heading in enumerate(report.head):
        table.add_column(Text(heading), overflow="fold", no_wrap=position == 0)
    for row in report.rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for note in report.notes:
        console.print(Text(note), soft_wrap=True)
    for aim in report.aims:
        console.print(Text(f"{'reached' if aim.met else 'MISSED '}  {aim.what}: {aim.measured}"), soft_wrap=True)
    console.print()


if __name__ == "__main__":
    commands = {"fuzz": fuzz, "hostile": hostile}
    chosen = commands.get("".join(sys.argv[1:2]))
    chosen(sys.argv[2:]) if chosen else main()
