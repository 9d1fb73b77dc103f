"""What a log of TORCH_TRACE does not hold, and why: one sentence each, for the record's notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.ir.record import CompileData

NAMED = 5
"""Compiles named in a sentence; the others are counted."""

ALWAYS = (
    "torch writes to this log while it compiles, and nothing while compiled code runs: how often compiled code was "
    "called, how long calls took and what ran eagerly between graphs is not in it.",
    "torch does not write to this log which operations it fused and why, what memory a kernel moves, and how long a "
    'kernel takes: explorer.explore(..., engine="stock") shows these.',
)


def notes(compiles: Sequence[CompileData], environment: Mapping[str, str], cut: int) -> tuple[str, ...]:
    """Sentences on `compiles`, of whose texts `cut` are kept in part."""
    frames = [each for each in compiles if each.engine == "stock" and each.id.startswith("s")]
    found = list(ALWAYS) if frames else []
    cached = [each for each in frames if _from_cache(each)]
    if cached:
        found.append(
            f"The code of {named(cached)} came from torch's cache, so that the log holds no passes and no joint graph "
            "of it: TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 compiles without caches."
        )
    unexplained = [each for each in frames if "." in each.id and not each.recompiles]
    if unexplained:
        found.append(f"The log gives no reason why {named(unexplained)} compiled again.")
    failed = [each for each in frames if each.error and not each.guards]
    if failed:
        found.append(f"{named(failed)} ended with an error before there were guards.")
    if frames and "torch" not in environment:
        found.append("The log does not say which version of torch wrote it.")
    if cut:
        found.append(f"{cut} texts are kept in part: the log is too large for a record to hold all of its text.")
    return tuple(found)


def named(compiles: Sequence[CompileData]) -> str:
    more = len(compiles) - NAMED
    return ", ".join(each.id for each in compiles[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _from_cache(compile: CompileData) -> bool:
    return any(e.kind == "Cache" and e.fields.get("state") == "hit" for e in compile.events)
