"""The command that says what handles an operator: explorer operators."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence

import click
import torch
from rich.table import Table
from rich.text import Text

from explorer.compiler.operators import MEANINGS, OperatorHandler, handlers, library_calls, named
from explorer.core.reasons import CATALOGUE
from explorer.show.cli.progress import wide_enough


@click.command("operators", short_help="Show how an ATen operator is decomposed or lowered.")
@click.argument("name", required=False)
@click.option("--markdown", is_flag=True, help="Print it as the page docs/handlers.md.")
@click.option("--library", is_flag=True, help="List the operators that are library calls.")
def operators_command(name: str | None, markdown: bool, library: bool) -> None:
    """Show how the ATen operator NAME is handled: decomposed, lowered to loops, or called from the library; without
    NAME, for every operator that is decomposed or lowered.

    \b
    Examples:
      explorer operators softmax
      explorer operators aten._softmax.default
    """
    if library and name is not None:
        raise click.UsageError("--library lists all library calls; leave out NAME")
    found = library_calls() if library else handlers() if name is None else named(name)
    if not found:
        raise click.UsageError(f"no ATen operator is named {name}, and no name contains it; expected a name as in add")
    if markdown:
        click.echo(page(found))
        return
    shown = Table(box=None, pad_edge=False)
    for title in ("operator", "handled by", "where"):
        shown.add_column(title)
    for each in found:
        shown.add_row(*map(Text, (each.operator, each.by, each.place or each.about)))
    console = wide_enough()
    console.print(shown)
    for kind in dict.fromkeys(each.kind for each in found):
        console.print(Text(f"{kind}: {MEANINGS[kind]}"))
    if library:
        console.print(Text(UNMET))


UNMET = (
    "Programs do not meet all of these. The backward of an operator that is decomposed is never called, _foreach and "
    "_fused ones are those of optimizers, and _test ones of torch's own tests. Of a program, "
    'print(explorer.explore(f)(x)) counts those that it met: "in library calls".'
)


def page(found: Sequence[OperatorHandler]) -> str:
    counts = Counter(each.kind for each in found)
    lines = [
        "# What handles an operator",
        "",
        f"Written by `explorer operators --markdown` with torch {torch.__version__.partition('+')[0]}. Exactly one part"
        " of the compiler handles each ATen operator. Operators not listed are either composite (decomposed by PyTorch"
        " itself) or library calls; `explorer operators NAME` shows which. TRACE and LOWER are stages of the pipeline"
        " (README).",
        "",
        "| handled by | operators | meaning |",
        "| --- | --- | --- |",
        *(f"| {kind} | {counts[kind]} | {MEANINGS[kind]} |" for kind in sorted(counts)),
        "",
        "| operator | handled by | function | file | what it does |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in found:
        about = each.about.replace("|", "\\|")
        lines.append(f"| {each.operator} | {each.by} | {each.function} | {each.file} | {about} |")
    return "\n".join(lines)


# The command that explains the code of a reason: explorer reason.


@click.command("reason", short_help="Explain the code of a reason.")
@click.argument("code", required=False, default="")
def reason_command(code: str) -> None:
    """Explain a reason: what it means and what to do. CODE is what is printed in brackets after the reason, such as
    break.print. With a part of a code, list the codes that contain it; without CODE, list all.

    \b
    Examples:
      explorer reason break.print
      explorer reason refuse
    """
    importlib.import_module("explorer.api")  # each part enters its reasons as it is imported
    if code in CATALOGUE:
        found = CATALOGUE[code]
        click.echo(f"{found.title}\n{found.meaning}" + (f"\nhint: {found.hint}" if found.hint else ""))
        return
    listed = [each for each in sorted(CATALOGUE) if code in each]
    if not listed:
        raise click.UsageError(f"no reason has the code {code}; `explorer reason` lists all {len(CATALOGUE)}")
    for each in listed:
        click.echo(f"{each:<32}{CATALOGUE[each].title}")
