"""What differs between two records, perhaps of two machines or versions of torch, before the texts of their stages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from explorer.core.text import count, duration
from explorer.ir.record import CompileData, RecordData
from explorer.show.view.caches import whole_keys

SHOWN = 20
"""Values of one kind that are named; the rest is counted."""

LONGEST = 200
"""Characters of one value."""


def lines(before: RecordData, after: RecordData) -> list[str]:
    """First where the two were made, then what was asked of the compiler, then what came of it and how long it took."""
    made = _values("", before.environment, after.environment, "absent")
    found = [*made]
    if before.engine == after.engine:
        found += _values("setting ", before.config, after.config, "default")
    found += answers(before, after)
    old, new = whole_keys(before), whole_keys(after)
    for id, cache in sorted(old.keys() & new.keys()):
        found += _values(f"part of the key {id} in the {cache}: ", old[id, cache], new[id, cache], "absent")
    if before.engine != after.engine:
        found += _made(before, after)
    else:
        found += _values("graph of ", _graphs(before), _graphs(after), "absent")
        found += _kernels(before, after)
    return found + _times(before, after, elsewhere=bool(made))


def _values(kind: str, old: Mapping[str, str], new: Mapping[str, str], absent: str) -> list[str]:
    changed = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    found = [f"{kind}{n}: {_short(old.get(n, absent))} -> {_short(new.get(n, absent))}" for n in changed[:SHOWN]]
    return found + ([f"... and {count(len(changed) - SHOWN, 'more difference')}"] if len(changed) > SHOWN else [])


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}..."


def answers(before: RecordData, after: RecordData) -> list[str]:
    """What the two answer differently, whichever engine each is of."""
    one = before.engine == after.engine
    old, new = (
        {(part.engine if one else "", part.what): part.text for part in record.glance} for record in (before, after)
    )
    keys = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    return [f"{' '.join(filter(None, key))}: {old.get(key, 'none')} -> {new.get(key, 'none')}" for key in keys]


def _graphs(record: RecordData) -> dict[str, str]:
    """By compile: how often the captured graph calls what."""
    return {f"{each.id} {_function(each)}": _operations(each) for each in record.compiles if each.operations}


def _made(before: RecordData, after: RecordData) -> list[str]:
    """What two compilers made, each with texts and names of its own: operations and kernels, function by function."""
    old, new = ({_function(each): each for each in record.compiles if each.stages} for record in (before, after))
    found = []
    for function in dict.fromkeys([*old, *new]):
        if function not in old or function not in new:
            found.append(f"{function}: only {'before' if function in old else 'after'}")
            continue
        pair = old[function], new[function]
        found += _counts_changed(f"{function}: operations captured", *(_called(each, "capture") for each in pair))
        found += _counts_changed(f"{function}: ATen operations", *(_called(each, "trace", "joint") for each in pair))
        found += _counts_changed(f"{function}: kernels", *map(_groups, pair))
    return found


def _counts_changed(what: str, old: Counter[str], new: Counter[str]) -> list[str]:
    """How many each has, with those that the other lacks."""

    def counted(all: Counter[str], alone: Counter[str]) -> str:
        names = ", ".join(alone.elements())
        return f"{all.total()} (only here: {names})" if names else f"{all.total()}"

    if not old and not new:
        return []
    same = f"{what}: {old.total()}, the same"
    return [same if old == new else f"{what}: {counted(old, old - new)} -> {counted(new, new - old)}"]


def _called(compile: CompileData, *stages: str) -> Counter[str]:
    graph = next((each.graph for each in compile.stages if each.name in stages and each.graph is not None), None)
    return Counter(_short_target(node.target) for node in (graph.calls if graph else ()))


def _short_target(target: str) -> str:
    words = target.split(".")
    return words[1] if words[0] in ("aten", "prims") and len(words) > 1 else words[-1]


def _groups(compile: CompileData) -> Counter[str]:
    """Kernels by the operations in them."""
    found: Counter[str] = Counter()
    for half in compile.halves:
        origins = {each.id: each.origins for each in half.operations}
        for item in half.schedule.items if half.schedule is not None else ():
            if item.kind != "extern":
                nodes = (node for each in item.operations for node in origins.get(each, ()))
                found[" + ".join(sorted({_NUMBERED.sub("", node.partition(".")[2]) for node in nodes}))] += 1
    return found


_NUMBERED = re.compile(r"_\d{1,9}$")
_PLACE = re.compile(r".{1,4096}:\d{1,9}\)")
_CONTINUATION = re.compile(r"\btorch_dynamo_resume_in_(<?\w+>?)_at_\d{1,9}")


def _function(compile: CompileData) -> str:
    """Its name without file and line, which are others in another environment."""
    name, _, place = compile.title.partition(" (")
    return _CONTINUATION.sub(r"\1 after a break", name if _PLACE.fullmatch(place) else compile.title)


def _operations(compile: CompileData) -> str:
    graph = next(stage.graph for stage in compile.stages if stage.graph is not None)
    calls = Counter(node.target for node in graph.calls)
    return ", ".join(f"{times} {target}" for target, times in sorted(calls.items()))


def _kernels(before: RecordData, after: RecordData) -> list[str]:
    """Kernels that one of the two lacks, by their functions."""
    old, new = (
        Counter(kernel.function for compile in record.compiles for half in compile.halves for kernel in half.kernels)
        for record in (before, after)
    )
    found = []
    for words, names in (("only before", old - new), ("only after", new - old)):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            found.append(f"kernels {words}: {', '.join(list(names)[:SHOWN])}{more}")
    return found


def _times(before: RecordData, after: RecordData, *, elsewhere: bool) -> list[str]:
    """A call's time in each; a ratio only to eager's, which tells whether the machine is another."""
    old, new = (
        {each.name: each.median for each in record.timing.contestants} if record.timing is not None else {}
        for record in (before, after)
    )
    both = [name for name in old if name in new and old[name] > 0]
    found = [f"a call of {n}: {duration(old[n])} -> {duration(new[n])} ({new[n] / old[n]:.2f} times)" for n in both]
    if both:
        where = "on machines or versions that differ" if elsewhere else "at two moments"
        found.append(f"(the two were timed in different runs, {where}: compare eager's change first)")
    return found
