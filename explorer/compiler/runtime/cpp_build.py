"""From sources to a loaded program: its entries as Python functions, without ctypes on the way of a call, and the
assembly of each kernel, every line linked to the C++ line it came from. Inductor: codecache.py (CppCodeCache) and
cpp_builder.py.
"""

from __future__ import annotations

import _ctypes
import ctypes
import errno
import functools
import hashlib
import os
import re
import struct
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from explorer.compiler.runtime import reasons
from explorer.compiler.runtime.cache import confirm, in_some_folder, intact, keep, put, read, remove, trim
from explorer.compiler.runtime.compiler import (
    FLAGS,
    LINK_FLAGS,
    LISTING_BYTES,
    Compiler,
    chosen_compiler,
    libraries,
    machine_flags,
    openmp_library,
    processor,
)
from explorer.compiler.runtime.stepwise import execute, marker, profiler, release_pools, stepwise
from explorer.core.origin import origin, synthetic
from explorer.core.reasons import Unsupported, Why
from explorer.core.text import Line, LineWriter, Text
from explorer.ir.program import BuildStep, Generated, Lowered, Program

# Whether the C++ compiler made vectors of each loop, and why not where it did not: its own remarks, loop by loop.


# The options that make either compiler remark on its loops. They change nothing of what it makes.
GCC = ("-fopt-info-vec-optimized-missed",)
CLANG = (
    "-Rpass=loop-vectorize",
    "-Rpass-missed=loop-vectorize",
    "-Rpass-analysis=loop-vectorize",
    "-fno-caret-diagnostics",
)

_REMARK = re.compile(r"(?:<stdin>|.*-stdin\.cpp):(\d+):\d+: (?:optimized|missed|remark): +(.*)")
"""zig names the copy that it makes of its standard input."""
_GCC_MADE = re.compile(r"loop vectorized using (\d+) byte vectors")
_CLANG_MADE = re.compile(r"vectorized (?:outer )?loop \(vectorization width: (.+?), interleaved count: (\d+)\)")
_REFUSED = re.compile(r"(?:loop )?not vectorized: (.*)")
_LOOP = re.compile(r"\s*for \(")

UNTOLD = "not vectorized; the compiler does not say why"
NOT_MADE = ("couldn't vectorize loop", "loop not vectorized")
SILENT = "not mentioned by the compiler: unrolled, or removed"


def remarks(output: str, source: Text) -> dict[str, tuple[bool, str]]:
    """By the ids of the lines where loops of `source` begin, whether it is vectorized, and what the compiler `said`
    of it. A loop that holds others is left out where it is not vectorized because it does."""
    loops = list(_loops(source.lines))
    inner = _innermost(loops, source.lines)
    widths: dict[int, list[str]] = defaultdict(list)
    refused: dict[int, list[str]] = defaultdict(list)
    for line in output.splitlines():
        found = _REMARK.match(line)
        at = inner.get(int(found[1]) - 1) if found is not None else None
        if found is None or at is None:
            continue
        if made := _GCC_MADE.match(found[2]):
            widths[at].append(f"{made[1]} bytes at a time")
        elif made := _CLANG_MADE.match(found[2]):
            widths[at].append(f"{made[1]} elements at a time, {made[2]} such steps in one")
        elif why := _REFUSED.match(found[2]):
            refused[at].append(re.sub(r" \[-Rpass[^\]]*\]$", "", why[1]))
        elif found[2].startswith(NOT_MADE):
            refused[at].append("")
    named = ((source.lines[at].id, at, remark) for at, remark in _remarks_of(loops, widths, refused))
    return {id: (at in widths, remark) for id, at, remark in named if id}


def _remarks_of(
    loops: list[tuple[int, int]], widths: Mapping[int, list[str]], refused: Mapping[int, list[str]]
) -> Iterator[tuple[int, str]]:
    for first, last in loops:
        holds = any(first < other <= last for other, _ in loops)
        whys = list(dict.fromkeys(why for why in refused.get(first, ()) if why))
        if made := list(dict.fromkeys(widths.get(first, ()))):
            rest = f" (remainder: {', '.join(made[1:])})" if len(made) > 1 else ""
            yield first, f"vectorized: {made[0]}{rest}"
        elif holds:
            continue
        elif whys:
            yield first, f"not vectorized: {'; '.join(whys)}"
        else:
            yield first, UNTOLD if first in refused else SILENT


def _loops(lines: tuple[Line, ...]) -> Iterator[tuple[int, int]]:
    """The first and last line of each loop, by indentation, as our generator writes it."""
    for at, line in enumerate(lines):
        if line.id and _LOOP.match(line.text):
            depth = len(line.text) - len(line.text.lstrip())
            last = at
            if line.text.endswith("{"):
                after = range(at + 1, len(lines))
                last = next((n for n in after if _depth(lines[n].text) <= depth), len(lines) - 1)
            yield at, last


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip()) if text.strip() else 1 << 30


def _innermost(loops: list[tuple[int, int]], lines: tuple[Line, ...]) -> dict[int, int]:
    """By line, the innermost loop that it is in; a pragma belongs to the loop that it stands before."""
    found: dict[int, int] = {}
    for first, last in loops:  # the inner come after the outer
        above = first - 1 if first and lines[first - 1].text.lstrip().startswith("#pragma") else first
        found.update(dict.fromkeys(range(above, last + 1), first))
    return found


_LABEL = re.compile(r"^([A-Za-z_]\w*+)(?:[.\w]*):")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_LOCAL = re.compile(r"^\.L\w+:")
_OPERATION = re.compile(r"^\s+[a-z]\w*")
_NOISE = re.compile(r"^\.(LV|LB(?!B\d+_)|LF|LC|Letext|Ldebug|LASF|LLRL|LVUS|LLST|Lfunc_|Ltmp)\w*:")
"""Labels that no jump leads to. GCC's .LBB3 is one; clang's .LBB0_3 is where a loop begins."""

TO_ASSEMBLY = ("-g1", "-S", "-x", "c++", "-", "-o")
"""And a file: to zig "-" is the name of one, in the program's folder."""


def listing(
    generated: Generated, units: Sequence[Text], compiler: Compiler, flags: tuple[str, ...]
) -> Callable[[], Mapping[str, Lowered]]:
    """A function that compiles the units once more to text, when somebody wants to read it: by kernel function "asm",
    and what the compiler remarks on its loops.

    Lines that no C++ line accounts for are synthetic."""
    found: dict[str, Lowered] = {}

    def lowered() -> Mapping[str, Lowered]:
        if not found:
            asked = (*flags, *(GCC if compiler.vector_math else CLANG), *TO_ASSEMBLY)
            for text in units:
                most = LISTING_BYTES
                with tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / "kernels.s"
                    run = compiler.run(*asked, str(file), text=f"{text}\n", folder=folder, complaint_bytes=most)
                    ended = run.finish(len(text.lines))
                    assembly = file.read_bytes()[:most].decode(errors="replace") if file.exists() else ""
                sources = {kernel.function: kernel.source for kernel in generated.kernels}
                made = _functions(assembly, text, set(sources))
                remarked = remarks(ended.complaint, text)
                for name, asm in made.items():
                    ids = {line.id for line in sources[name].lines}
                    own = {id: each for id, each in remarked.items() if id in ids}
                    texts = {id: text for id, (_, text) in own.items()}
                    found[name] = Lowered({"asm": asm}, texts, tuple(id for id, (made, _) in own.items() if made))
        return found

    return lowered


def _functions(assembly: str, source: Text, functions: set[str]) -> dict[str, Text]:
    """Cut the compiler's output into the kernels' functions (OpenMP bodies, named after them, included)."""
    writers: dict[str, LineWriter] = {}
    current: LineWriter | None = None
    cause: tuple[str, ...] = ()
    for line in assembly.splitlines():
        if (label := _LABEL.match(line)) is not None:
            name = label[1]
            current = None
            if name in functions:
                current = writers.setdefault(name, LineWriter(f"{name}:asm", "gas"))
            cause = ()
        elif (where := _LOC.match(line)) is not None:
            number = int(where[1])
            known = source.lines[number - 1] if 0 < number <= len(source.lines) else None
            cause = (known.id,) if known is not None and known.id else ()
            continue
        if current is None or _NOISE.match(line):
            continue
        if label is not None or _LOCAL.match(line) or _OPERATION.match(line):
            with origin(*(cause or (synthetic("function prologue"),))):
                current.line(line.replace("\t", "    ").rstrip())
    return {name: writer.finish() for name, writer in writers.items()}


METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    """PyMethodDef, part of CPython's stable ABI."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes = (ctypes.c_char_p, ctypes.py_object, ctypes.c_void_p)
_new_function.restype = ctypes.py_object


class Handle(int):
    """That of a loaded library, unloaded when nothing refers to the number any more. The collector is not to know it:
    so it outlives each `__del__` of a cycle, of which some may call functions of the library."""

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _ctypes.dlclose(self)


class Library(ctypes.CDLL):
    """A loaded library, unloaded with the last of its functions."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.handle = Handle(self._handle)
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(self.handle))


def entry_function(library: Library, name: str) -> Callable[..., int]:
    """The entry `name` of a loaded library as a built-in function: pointers, sizes, threads -> 0 or an error number.
    Raises OSError where the library has none."""
    try:
        address = ctypes.cast(library[f"{name}_entry"], ctypes.c_void_p).value
    except AttributeError as error:
        raise OSError(str(error)) from error
    label = name.encode()
    # Bytes: of a cycle, the collector frees the memory of a structure of ctypes before the function, which reads it
    # when it ends, is gone.
    definition = bytes(_MethodDef(label, address, METH_FASTCALL, None))
    made: Callable[..., int] = _new_function(definition, (definition, label, library.handle), None)
    return made


def load(
    generated: Generated,
    library_path: Path | None,
    steps: tuple[BuildStep, ...],
    lowered: Callable[[], Mapping[str, Lowered]],
) -> Program:
    """Load the library and run the wrapper's text, which defines `call`. Raises OSError for a library that cannot be
    loaded or is not this program's."""
    names: dict[str, object] = dict(generated.constants)
    threads = generated.options.threads
    names["threads"] = torch.get_num_threads if threads is None else functools.partial(int, threads)
    library = ctypes.CDLL(None) if library_path is None else Library(str(library_path))
    if isinstance(library, Library):
        names |= {entry.function: entry_function(library, entry.function) for entry in generated.entries}
    call = execute(generated.wrapper, generated.name, names)
    run, release_watched = stepwise(generated, library, names)

    def release() -> None:
        release_pools(call)
        release_watched()

    return Program(generated, call, steps, lowered, profiler(run), run, marker(run), release)


UNIT_LINES = 1500
"""Lines of kernels from which on they are compiled as several units at a time."""

TRIMMED = "00"
"""A new library whose name begins so has the folder looked over: one in 256, as each of the many files is asked for its
size."""

FORBIDDEN = "failed to map segment"
"""What the loader says where code may not be run from a folder; another may serve."""

ELF_HEADER, SEGMENT_HEADER = 64, 56


def build_cpp(generated: Generated) -> Program:
    """Compile the kernels (or find them in the cache), load them and make the callable.

    Raises Unsupported without a compiler, without room for its output, or where it refuses the code."""
    if not generated.kernels:
        return load(generated, None, (), dict)
    compiler = chosen_compiler()
    return in_some_folder(generated.options.cache_dir, lambda folder: _program(_Plan(generated, compiler, folder)))


@dataclass(frozen=True)
class _Plan:
    """What is built with what, where."""

    generated: Generated
    compiler: Compiler
    folder: Path


def units(generated: Generated) -> list[Text]:
    """The translation units: one, or as many as there are processors where there is much to compile. The last one
    holds the entries."""
    distinct = {kernel.function: kernel.source for kernel in generated.kernels}
    total = sum(len(source.lines) for source in distinct.values())
    count = min(os.cpu_count() or 1, 8) if total > UNIT_LINES else 1
    parts: list[list[Text]] = [[] for _ in range(count)]
    sizes = [0] * count
    for source in sorted(distinct.values(), key=lambda source: -len(source.lines)) if count > 1 else distinct.values():
        smallest = sizes.index(min(sizes))
        parts[smallest].append(source)
        sizes[smallest] += len(source.lines)
    texts = [[*generated.prelude.lines, *(line for source in part for line in source.lines)] for part in parts]
    here = {source.lines[0].text for source in parts[-1]}
    heads = [source.lines[0] for source in distinct.values() if source.lines[0].text not in here]
    texts[-1] += [Line(head.text.removesuffix(" {") + ";", "", head.origins) for head in heads]
    texts[-1] += [line for entry in generated.entries for line in entry.source.lines]
    return [Text(tuple(lines), "cpp") for lines in texts]


def _program(plan: _Plan) -> Program:
    """The loaded program; a library from the cache only where it is as it was made. Raises OSError where the folder
    does not serve."""
    generated, compiler, folder = plan.generated, plan.compiler, plan.folder
    texts = units(generated)
    sources = [f"{text}\n".encode() for text in texts]
    flags = (*generated.options.cpp_flags, *machine_flags(), compiler.threads, *FLAGS)
    made_with = (*compiler.words, *compiler.identity, processor(), *flags, *openmp_library())
    name = hashlib.sha256("\0".join(made_with).encode() + b"\0".join(sources)).hexdigest()[:32]
    target = folder / f"{name}.so"
    started = time.perf_counter()
    files = [put(folder / f"{name}{f'_{i}' if i else ''}.cpp", source) for i, source in enumerate(sources)]
    command = (*compiler.words, *flags, *LINK_FLAGS, *map(str, files), "-o", str(target), *libraries(compiler))
    show = listing(generated, texts, compiler, flags)

    def loaded(cached: bool) -> Program:
        seconds = time.perf_counter() - started
        step = BuildStep(Path(command[0]).name, command, compiler.version, str(target), seconds, cached)
        return load(generated, target, (step,), show)

    if intact(target):
        try:
            return loaded(cached=True)
        except OSError:  # made on another system, perhaps; it is built again below
            pass
    try:
        _compile(compiler, flags, files, target, [len(text.lines) for text in texts])
        program = loaded(cached=False)
    except Unsupported:
        _still_there(files)
        raise
    except OSError as error:
        _still_there(files)
        kept = os.path.lexists(target)
        remove(target)
        if not kept or FORBIDDEN in str(error):
            raise
        message = f"{' '.join(compiler.words)}: what it made cannot be loaded: {error}"
        raise Unsupported(Why(reasons.COMPILER_FAILED, message)) from error
    confirm(target)
    if name.startswith(TRIMMED):
        trim(folder, generated.options.cache_bytes)
    return program


def _still_there(files: list[Path]) -> None:
    """Raises OSError where a file is gone: the folder was emptied during the build."""
    if not all(map(os.path.lexists, files)):
        raise FileNotFoundError(errno.ENOENT, "another process emptied it during a build")


def _compile(compiler: Compiler, flags: tuple[str, ...], files: list[Path], target: Path, lines: list[int]) -> None:
    """One run for a single unit; else objects side by side and a link. The result appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as scratch:
        made = Path(scratch, "made.so")
        given = [str(file) for file in files]
        if len(files) > 1:
            objects = [f"{scratch}/{file.stem}.o" for file in files]
            runs = [
                compiler.run(*flags, "-c", file, "-o", out, folder=scratch)
                for file, out in zip(given, objects, strict=True)
            ]
            try:
                for run, count in zip(runs, lines, strict=True):
                    run.finish(count)
            finally:
                for run in runs:
                    run.child.stop()
            given = objects
        linking = compiler.run(*flags, *LINK_FLAGS, *given, "-o", str(made), *libraries(compiler), folder=scratch)
        linking.finish(sum(lines))
        with suppress(OSError):  # there may be none, of which is told below
            made.chmod(0o700)  # others may write to it where the umask or a wrapper of the compiler allows that
        library = read(made) or b""
        message = "" if is_whole(library) else "it ended without an error, but its library is incomplete"
        if ADDRESS_SANITIZER.search(library) and "asan" not in os.environ.get("LD_PRELOAD", ""):
            message = "its libraries need the address sanitizer, which ends a process that has not preloaded it"
        if message:
            raise Unsupported(Why(reasons.COMPILER_FAILED, f"{' '.join(compiler.words)}: {message}"))
        keep(made, target)


ADDRESS_SANITIZER = re.compile(rb"lib[\w.]{0,30}asan[-\w.]{0,30}\.so")


def is_whole(library: bytes) -> bool:
    """Whether a file is as long as its ELF header says; loading a truncated one would end the process."""
    if not sys.platform.startswith("linux"):
        return bool(library)
    if library[:5] != b"\x7fELF\x02" or len(library) < ELF_HEADER:
        return False
    segments, sections = struct.unpack_from("=QQ", library, 32)
    segment_bytes, segment_count, section_bytes, section_count = struct.unpack_from("=4H", library, 54)
    if max(segments + segment_bytes * segment_count, sections + section_bytes * section_count) > len(library):
        return False
    starts = (segments + segment_bytes * number for number in range(segment_count))
    parts = (struct.unpack_from("=8xQ16xQ", library, start) for start in starts)
    return segment_bytes >= SEGMENT_HEADER and all(start + size <= len(library) for start, size in parts)
