"""Which loops run as one kernel."""

from __future__ import annotations

from explorer.ir.loops import Loop
from explorer.ir.schedule import Dependencies, Fused
from explorer.schedule.group import Names, single
from explorer.schedule.items import collect


def separate(dependencies: Dependencies) -> Fused:
    """Every loop a kernel of its own."""
    names = Names()
    operations = dependencies.loops.operations
    groups = [single(operation, names) for operation in operations if isinstance(operation, Loop)]
    return collect(dependencies, groups, {})
