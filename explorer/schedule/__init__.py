"""From loops to a schedule: dependencies, fusion, order, memory. Inductor: scheduler.py."""

from explorer.core.stage import Stage
from explorer.ir.loops import Loops
from explorer.ir.memory import MemoryPlan
from explorer.ir.schedule import Dependencies, Fused, Schedule
from explorer.schedule.deps import dependencies
from explorer.schedule.fuse import fuse, separate
from explorer.schedule.memory import plan_memory
from explorer.schedule.order import order

DEPENDENCIES: Stage[Loops, Dependencies] = Stage("dependencies", dependencies)
FUSE: Stage[Dependencies, Fused] = Stage("fuse", fuse)
SEPARATE: Stage[Dependencies, Fused] = Stage("fuse", separate)
"""In the place of FUSE where Config.fuse is False."""
ORDER: Stage[Fused, Schedule] = Stage("order", order)
PLAN_MEMORY: Stage[Schedule, MemoryPlan] = Stage("plan_memory", plan_memory)
