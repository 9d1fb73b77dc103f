"""Why a program for a card was not built."""

from explorer.core.reasons import reason

NO_TRITON = reason(
    "runtime.no_triton",
    "Triton is not installed",
    "Kernels for cards are compiled by Triton, which is there for Linux only.",
    "Install triton 3.6 or later.",
)
TRITON_FAILED = reason(
    "runtime.triton_failed",
    "Triton could not compile a kernel",
    "The Triton compiler, or the assembler behind it, refused generated code; its message follows.",
    "Please report it with the record: generated code has to compile.",
)
NO_TOOL = reason(
    "runtime.no_triton_tool",
    "a tool of the Triton compiler is missing",
    "The assembler and the disassembler come with the triton package; one of them is not there or does not run.",
    "Install triton from its wheel, or set TRITON_PTXAS_PATH or TRITON_NVDISASM_PATH.",
)
