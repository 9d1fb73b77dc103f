"""Why built code is missing, or lives somewhere else than asked."""

from explorer.core.reasons import reason

NO_COMPILER = reason(
    "runtime.no_compiler",
    "no C++ compiler on this machine",
    "Kernels for the CPU are compiled with the compiler that CXX names, else with g++, c++ or clang++; none was found, "
    "or it cannot be started.",
    "Install g++ 11 or later (apt install g++, or pip install ziglang), or set CXX; `explorer doctor` tries it.",
)
WRONG_CXX = reason(
    "runtime.wrong_cxx",
    "CXX names no C++ compiler",
    "Kernels for the CPU are compiled with the command in the environment variable CXX, which is not found.",
    "Correct CXX, or unset it: then g++, c++ or clang++ is looked for (apt install g++, or pip install ziglang, where "
    "there is none).",
)
COMPILER_FAILED = reason(
    "runtime.compiler_failed",
    "the C++ compiler failed",
    "The compiler ended with an error, was killed, or wrote nothing that can be loaded; its message follows.",
    "Run `explorer doctor`, which tries the compiler on a small kernel. If that works, please report it, with the "
    "saved record attached.",
)
COMPILER_HUNG = reason(
    "runtime.compiler_hung",
    "the C++ compiler did not end",
    "The compiler, or a wrapper around it, exceeded its time limit and was stopped. This process does "
    "not start it again.",
    "Start the program again if this was the compiler's first run: zig c++ then builds libraries of its own, for "
    "minutes on a busy machine. Otherwise run the compiler by hand; where CXX names a wrapper (ccache, distcc), name "
    "the compiler itself.",
)
CACHE_UNUSABLE = reason(
    "runtime.cache_unusable",
    "the kernel cache cannot be used",
    "The folder is read-only, full, mounted noexec, or open to other users, so kernels were built in a temporary "
    "folder for this process and will be built again by the next.",
    "Make the folder writable and private (0700), or pass options={'build': explorer.BuildOptions(cache_dir=...)}.",
)
NO_ROOM = reason(
    "runtime.no_room",
    "no folder for built kernels",
    "Neither the cache folder nor a temporary folder could be used; the reason for each follows.",
    "Free some disk space, or pass options={'build': explorer.BuildOptions(cache_dir=...)}.",
)
NO_TRITON = reason(
    "runtime.no_triton",
    "Triton is not installed",
    "Kernels for GPUs are compiled by Triton, which exists for Linux only.",
    "Install triton 3.6 or later.",
)
TRITON_FAILED = reason(
    "runtime.triton_failed",
    "Triton could not compile a kernel",
    "The Triton compiler, or the assembler that it uses, rejected generated code; its message follows.",
    "Generated code has to compile: please report it, with the saved record attached.",
)
NO_TOOL = reason(
    "runtime.no_triton_tool",
    "a tool of the Triton compiler is missing",
    "The assembler and the disassembler come with the triton package; one of them is missing or does not run.",
    "Install triton from its wheel, or set TRITON_PTXAS_PATH or TRITON_NVDISASM_PATH.",
)
