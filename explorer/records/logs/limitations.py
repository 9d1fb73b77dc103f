"""What a TORCH_TRACE log does not contain, and why: one sentence each, for the record's notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.ir.record import CompileData

NAMED = 5
"""Compiles named in a sentence; the others are counted."""

ALWAYS = (
    "torch writes this log only while it compiles, so it does not contain how often compiled code was called, how "
    "long calls took, or what ran eagerly between graphs.",
    "The log does not contain which operations torch fused and why, how many bytes a kernel moves, or how long it "
    'takes; explorer.explore(..., engine="stock") shows these.',
)


def notes(compiles: Sequence[CompileData], environment: Mapping[str, str], cut: int) -> tuple[str, ...]:
    """Sentences on `compiles`, of whose texts `cut` are kept in part."""
    frames = [each for each in compiles if each.engine == "stock" and each.id.startswith("s")]
    found = list(ALWAYS) if frames else []
    cached = [each for each in frames if _from_cache(each)]
    if cached:
        found.append(
            f"The code of {named(cached)} came from torch's cache, so the log has no passes and no joint graph for "
            "it; set TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 to compile without caches."
        )
    unexplained = [each for each in frames if "." in each.id and not each.recompiles]
    if unexplained:
        found.append(f"The log has no reason for the recompile {named(unexplained)}.")
    failed = [each for each in frames if each.error and not each.guards]
    if failed:
        found.append(f"{named(failed)} failed before its guards were made.")
    if frames and "torch" not in environment:
        found.append("The log does not say which version of torch wrote it.")
    if cut:
        found.append(f"{cut} texts are truncated, because the log has more text than a record can hold.")
    return tuple(found)


def named(compiles: Sequence[CompileData]) -> str:
    more = len(compiles) - NAMED
    return ", ".join(each.id for each in compiles[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _from_cache(compile: CompileData) -> bool:
    return any(e.kind == "Cache" and e.fields.get("state") == "hit" for e in compile.events)
