"""Why code cannot be generated for something."""

from explorer.core.reasons import reason

INDEX = reason(
    "codegen.index",
    "index that has no integer form",
    "A size or index expression uses an operation that is not an integer one.",
    "Mark the dimension static, or compute the size outside the compiled function.",
)
DTYPE = reason(
    "codegen.dtype",
    "dtype that generated code does not compute in",
    "Kernels are generated for floats of 16, 32 and 64 bits, integers and bool.",
    "Complex and 8-bit float tensors go through library operators.",
)
OPERATION = reason(
    "codegen.operation",
    "scalar operation without a form for this dtype or target",
    "The code generator does not support this operation for these dtypes.",
)
