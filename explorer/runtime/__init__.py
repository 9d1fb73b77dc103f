"""Building, loading, calling and timing generated programs."""

from explorer.core.stage import Stage
from explorer.ir.program import Generated, Program
from explorer.runtime.targets import build

BUILD: Stage[Generated, Program] = Stage("build", build)
