"""The command that explains the code of a reason: explorer reason."""

from __future__ import annotations

import click

from explorer.core.reasons import CATALOGUE


@click.command("reason", short_help="Explain the code of a reason.")
@click.argument("code", required=False, default="")
def reason_command(code: str) -> None:
    """Explain the reason CODE, which stands in brackets in what is printed: what it means and what to do. With a part
    of a code, or without CODE, list the codes that contain it.

    \b
    Examples:
      explorer reason break.print
      explorer reason refuse
    """
    if code in CATALOGUE:
        found = CATALOGUE[code]
        click.echo(f"{found.title}\n{found.meaning}" + (f"\nhint: {found.hint}" if found.hint else ""))
        return
    listed = [each for each in sorted(CATALOGUE) if code in each]
    if not listed:
        raise click.UsageError(f"no reason has the code {code}; `explorer reason` lists all {len(CATALOGUE)}")
    for each in listed:
        click.echo(f"{each:<32}{CATALOGUE[each].title}")
