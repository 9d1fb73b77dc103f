"""Why built code is missing, or lives somewhere else than asked."""

from explorer.core.reasons import reason

NO_COMPILER = reason(
    "runtime.no_compiler",
    "no C++ compiler on this machine",
    "Kernels for the CPU are compiled with g++ (or the compiler that CXX names), which was not found.",
    "Install g++ 11 or later, or set CXX.",
)
COMPILER_FAILED = reason(
    "runtime.compiler_failed",
    "the C++ compiler refused generated code",
    "The compiler ended with an error; its message follows.",
    "Please report it with the record: generated code has to compile.",
)
CACHE_UNWRITABLE = reason(
    "runtime.cache_unwritable",
    "the kernel cache cannot be written",
    "The folder is read-only, full, or not the user's own, so kernels were built in a temporary folder for this "
    "process and will be built again by the next.",
    "Make the folder writable and private (0700), or name another with cache_dir.",
)
NO_ROOM = reason(
    "runtime.no_room",
    "no folder for built kernels",
    "Neither the cache folder nor the temporary folder could be written.",
    "Free some disk space, or name another folder with cache_dir.",
)
