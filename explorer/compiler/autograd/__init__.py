"""AOTAutograd's counterpart: TRACE, CLEANUP, PARTITION, REJOIN, and stages for the user's own passes."""

from explorer.compiler.autograd.partition import partition
from explorer.compiler.autograd.passes import CLEANUP, own_passes
from explorer.compiler.autograd.preload import preload
from explorer.compiler.autograd.rejoin import rejoin
from explorer.compiler.autograd.trace import only_eager, trace
from explorer.compiler.autograd.userpass import user_pass
from explorer.compiler.autograd.verify import verify_compiled, verify_partitioned, verify_traced
from explorer.core.stage import Stage
from explorer.ir.graph import Graph
from explorer.ir.joint import Halves, Partitioned, Traced
from explorer.ir.program import Compiled

TRACE: Stage[Graph, Traced] = Stage("trace", trace, verify_traced)
PARTITION: Stage[Traced, Partitioned] = Stage("partition", partition, verify_partitioned)
REJOIN: Stage[Halves, Compiled] = Stage("rejoin", rejoin, verify_compiled)

__all__ = [
    "CLEANUP",
    "PARTITION",
    "REJOIN",
    "TRACE",
    "only_eager",
    "own_passes",
    "preload",
    "user_pass",
    "verify_compiled",
]
