"""Which ATen operators are broken into simpler ones while tracing, and which stay whole.

What stays whole is either a scalar operation or a reduction that loops express directly, or a library call (mm, addmm,
bmm, baddbmm, convolution and its backward, attention and its backward, pooling, sort, scan). Random operators stay
whole so that they draw from torch's generator in eager's order. Everything is dispatched below autograd.

Inductor: decomposition.py. Most decompositions are torch's own (torch._decomp); ours replace or add to them.
"""

from explorer.compiler.autograd.decomps import elementwise, factories, reductions, resampling, views
from explorer.compiler.autograd.decomps.table import DECOMPOSITIONS, Decomposition, decompositions, reference_of_prim

__all__ = [
    "DECOMPOSITIONS",
    "Decomposition",
    "decompositions",
    "elementwise",
    "factories",
    "reductions",
    "reference_of_prim",
    "resampling",
    "views",
]
