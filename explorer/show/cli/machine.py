"""The commands about this machine: explorer doctor | cache."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.table import Table
from rich.text import Text

from explorer.compiler.config import Config
from explorer.compiler.runtime.cache import clear, damaged, default_folder, error_text, items, private, remove
from explorer.core.text import count
from explorer.show.cli.progress import wide_enough
from explorer.show.doctor import as_json, examine

SIGNS = {"works": "ok", "missing": "--", "broken": "BROKEN"}


@click.command("doctor", short_help="Check the setup of this machine.")
@click.option("--json", "machine_readable", is_flag=True, help="Print the findings as JSON.")
def doctor_command(machine_readable: bool) -> None:
    """Check the C++ compiler, kernels, folders, versions, GPUs and the viewer on this machine, with a hint for each
    problem. Builds and runs one small kernel. Exits with 1 if something needed is broken.

    \b
    Examples:
      explorer doctor
      CXX="ccache g++" explorer doctor
      explorer doctor --json > machine.json
    """
    findings = examine()
    if machine_readable:
        click.echo(as_json(findings))
    else:
        shown = Table(box=None, show_header=False, pad_edge=False)
        for finding in findings:
            shown.add_row(*map(Text, (SIGNS[finding.state], finding.name, finding.detail)))
            if finding.hint:
                shown.add_row("", "", Text(f"-> {finding.hint}"))
        wide_enough().print(shown)
    sys.exit(any(finding.state == "broken" for finding in findings))


@click.command("cache", short_help="Show, verify or clear the cache of built kernels.")
@click.argument("action", type=click.Choice(["show", "verify", "clear"]), default="show")
@click.option(
    "--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="The folder, if not the default."
)
@click.option("--json", "machine_readable", is_flag=True, help="Print as JSON.")
def cache_command(action: str, folder: Path | None, machine_readable: bool) -> None:
    """Show where built kernels are cached and how much space they take; `verify` them all, which removes damaged ones;
    or `clear` the cache. Other files in its folder are left alone.

    \b
    Examples:
      explorer cache
      explorer cache verify
      explorer cache clear
    """
    place = str(folder or "the user's cache folder")
    try:
        place = str(folder or default_folder())
        real = private(folder or default_folder())
    except OSError as error:
        told_of = f"{place} is not used: {error_text(error)}; each process builds its kernels again"
        raise click.ClickException(told_of) from None
    bad = damaged(real) if action == "verify" else []
    for path in bad:
        remove(path)
    removed = clear(real) if action == "clear" else 0
    kept, _ = items(real)
    facts = {
        "folder": str(real),
        "programs": len(kept),
        "bytes": sum(item.bytes for item in kept.values()),
        "limit": Config().build.cache_bytes,
        **({"damaged": [path.name for path in bad]} if action == "verify" else {}),
        **({"removed": removed} if action == "clear" else {}),
    }
    if machine_readable:
        click.echo(msgspec.json.format(msgspec.json.encode(facts)))
        return
    console = wide_enough()
    size, limit = (f"{int(facts[name]) / 2**20:.1f} MiB" for name in ("bytes", "limit"))  # type: ignore[call-overload]
    holds = f"{count(len(kept), 'program')}, {size}"
    console.print(Text(f"{real}: {holds}; above {limit}, the least recently used are removed"))
    if action == "verify":
        console.print(Text(f"{count(len(bad), 'damaged file')} removed" if bad else "all are intact"))
        console.print(*[Text(f"  {path.name}") for path in bad], sep="\n")
    if action == "clear":
        console.print(Text(f"{removed / 2**20:.1f} MiB removed"))
