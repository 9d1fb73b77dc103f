"""From a schedule to sources: C++ or Triton kernels, and the Python wrapper. Inductor: codegen/."""

from explorer.compiler.codegen.generate import generate, verify_generated
from explorer.core.stage import Stage
from explorer.ir.program import Generated, Generation

GENERATE: Stage[Generation, Generated] = Stage("generate", generate, verify_generated)
