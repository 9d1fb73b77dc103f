"""Building, loading, calling and timing generated programs."""

from explorer.compiler.runtime.targets import build, verify_built
from explorer.core.stage import Stage
from explorer.ir.program import Generated, Program

BUILD: Stage[Generated, Program] = Stage("build", build, verify_built)
