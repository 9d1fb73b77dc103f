"""From loops to a schedule: dependencies, fusion, order, memory. Inductor: scheduler.py."""

from explorer.compiler.schedule.deps import dependencies
from explorer.compiler.schedule.fuse import fuse, separate
from explorer.compiler.schedule.memory import plan_memory
from explorer.compiler.schedule.order import order
from explorer.compiler.schedule.verify import verify_dependencies, verify_fused, verify_memory, verify_schedule
from explorer.core.stage import Stage
from explorer.ir.loops import Loops
from explorer.ir.schedule import Dependencies, Fused, MemoryPlan, Schedule

DEPENDENCIES: Stage[Loops, Dependencies] = Stage("dependencies", dependencies, verify_dependencies)
FUSE: Stage[Dependencies, Fused] = Stage("fuse", fuse, verify_fused)
SEPARATE: Stage[Dependencies, Fused] = Stage("separate", separate, verify_fused)
"""In the place of FUSE where Config.fuse is False."""
ORDER: Stage[Fused, Schedule] = Stage("order", order, verify_schedule)
PLAN_MEMORY: Stage[Schedule, MemoryPlan] = Stage("plan memory", plan_memory, verify_memory)

__all__ = ["DEPENDENCIES", "FUSE", "ORDER", "PLAN_MEMORY", "SEPARATE"]
