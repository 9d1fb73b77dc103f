"""Building, loading, calling and timing generated programs."""

from explorer.core.stage import Stage
from explorer.ir.program import Generated, Program
from explorer.runtime.build import build_cpp

BUILD: Stage[Generated, Program] = Stage("BUILD", build_cpp)
