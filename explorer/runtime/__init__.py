"""Building, loading, calling and timing generated programs."""

from explorer.core.stage import Stage
from explorer.ir.program import Generated, Program
from explorer.runtime.targets import build, verify_built

BUILD: Stage[Generated, Program] = Stage("build", build, verify_built)
