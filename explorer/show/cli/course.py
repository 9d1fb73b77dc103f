"""explorer course new | check, and explorer class."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from explorer.core.files import visible
from explorer.core.text import count
from explorer.course import board
from explorer.course.build import new
from explorer.course.grade import NotANotebook, graded


@click.group("course", short_help="Start the course, or check a lesson.")
def course_command() -> None:
    """The course: lessons as notebooks, with puzzles that check themselves."""


@course_command.command("new")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def new_command(folder: Path) -> None:
    """Write the lessons' notebooks to FOLDER. Notebooks that exist are not overwritten.

    \b
    Examples:
      explorer course new lessons
    """
    try:
        written, kept = new(folder)
    except OSError as error:
        raise click.ClickException(visible(f"cannot write to {folder}: {error.strerror}")) from error
    click.echo(f"{count(len(written), 'notebook')} written to {folder}, {len(kept)} kept as they were")


@course_command.command("check")
@click.argument("notebook", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON: for graders.")
@click.option("--seed", type=int, help="Seed of the random inputs; by default EXPLORER_COURSE_SEED, or else 0.")
def check_command(notebook: Path, as_json: bool, seed: int | None) -> None:
    """Check the answers in NOTEBOOK, each in a process of its own. The exit code is 1 if one is not right.

    \b
    Examples:
      explorer course check 03_graph_breaks.ipynb
      explorer course check 03_graph_breaks.ipynb --json --seed 7
    """
    try:
        found = graded(notebook, seed)
    except (NotANotebook, OSError) as error:
        raise click.UsageError(visible(str(error))) from error
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for each in found:
            mark, why = ("✓", "") if each.ok else ("✗", f"  {each.step}: {each.message}")
            click.echo(visible(f"{mark} {each.puzzle:<14}{each.points:>5g} of {each.of}{why}"))
    if not all(each.ok for each in found):
        raise click.exceptions.Exit(1)


@click.command("class", short_help="Show the progress of a course's learners.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default="board.html",
    show_default=True,
    help="The page.",
)
def class_command(folder: Path, out: Path) -> None:
    """Write a page that shows, for the learners whose notebooks are in folders under FOLDER, which puzzles they solved
    and which check fails first.

    Learners are numbered, and named if they set EXPLORER_COURSE_NAME. For each puzzle, another page next to it has the
    record of its most common first failure, without names.

    \b
    Examples:
      explorer class /home -o board.html
    """
    found = board.lines(folder)
    if not found:
        raise click.UsageError(
            visible(f"no notebook under {folder} was worked on: none has checked a puzzle of the course")
        )
    try:
        out.write_text(board.page(found, board.examples(found, out)))
    except OSError as error:
        raise click.ClickException(visible(f"cannot write {out}: {error.strerror}")) from error
    click.echo(f"Board of {count(len({each.line.who for each in found}), 'learner')}: {out}")
