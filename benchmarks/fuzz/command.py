"""`python -m benchmarks fuzz`."""

from __future__ import annotations

import os
import time

import click

from benchmarks.fuzz.stream import ALIKE, SHRINK_SECONDS, Tally, explain, stream


@click.command("fuzz")
@click.option("--minutes", default=1.0, help="For how long new programs are begun.")
@click.option("--programs", default=0, help="How many programs, instead of for how long.")
@click.option("--seed", default="", help="By default the date.")
@click.option("--start", default=0, help="The number of the first program.")
@click.option("--backend", default="explorer", help="explorer, eager, or one of torch's, such as aot_eager.")
@click.option("--processes", default=os.cpu_count() or 1)
@click.option("--shrink", default=SHRINK_SECONDS, help="Seconds for making a finding small; 0 to leave it as it is.")
def fuzz(minutes: float, programs: int, seed: str, start: int, backend: str, processes: int, shrink: float) -> None:
    """Run random programs compiled and in eager, and show what differs. Exits with 1 where something does."""
    seed = seed or time.strftime("%Y-%m-%d")
    begun = told = time.monotonic()
    seen: set[int] = set()

    def enough(count: int) -> bool:
        return count >= programs if programs else time.monotonic() - begun > minutes * 60

    def heard(tally: Tally) -> None:
        nonlocal told
        for finding in (each for findings in tally.kinds.values() for each in findings if each.number not in seen):
            seen.add(finding.number)
            click.echo(f"{seed}/{finding.number}: {finding.kind}", err=True)  # a run that is cut has told them
        if time.monotonic() - told > 20:
            told = time.monotonic()
            click.echo(f"{told - begun:6.0f} s: {_figures(tally)}", err=True)

    tally = stream(seed, backend, processes, start, enough, heard)
    click.echo(f"seed {seed}, backend {backend}, {time.monotonic() - begun:.0f} s: {_figures(tally)}")
    for kind, findings in sorted(tally.kinds.items(), key=lambda each: -len(each[1])):
        click.echo(f"{len(findings):5} {kind}  ({', '.join(str(each.number) for each in findings[:6])})")
    if shrink:
        chosen = [finding for findings in tally.kinds.values() for finding in findings[:ALIKE]]
        for text in explain(seed, chosen, backend, shrink, processes):
            click.echo("\n" + text)
    if tally.kinds:
        raise SystemExit(1)


def _figures(tally: Tally) -> str:
    counts = tally.outcomes
    return (
        f"{sum(counts.values()) - counts['dropped']} programs, {tally.calls} calls, {counts['differs']} differ, "
        f"{counts['dropped']} dropped" + (f", {counts['broken']} broken" if counts["broken"] else "")
    )
