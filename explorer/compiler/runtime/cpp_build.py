"""From sources to a loaded program. Inductor: codecache.py (CppCodeCache) and cpp_builder.py."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from explorer.compiler.runtime import reasons
from explorer.compiler.runtime.assembly import listing
from explorer.compiler.runtime.cache import confirm, in_some_folder, intact, keep, put, read, remove, trim
from explorer.compiler.runtime.call import load
from explorer.compiler.runtime.compiler import (
    FLAGS,
    LINK_FLAGS,
    Compiler,
    chosen_compiler,
    libraries,
    machine_flags,
    openmp_library,
    processor,
)
from explorer.core.reasons import Unsupported, Why
from explorer.core.text import Line, Text
from explorer.ir.program import BuildStep, Generated, Program

UNIT_LINES = 1500
"""Lines of kernels from which on they are compiled as several units at a time."""

TRIMMED = "0"
"""A new library whose name begins so has the folder looked over: one in sixteen."""

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


def _flags(generated: Generated, compiler: Compiler) -> tuple[str, ...]:
    return (*generated.options.cpp_flags, *machine_flags(), compiler.threads, *FLAGS)


def _program(plan: _Plan) -> Program:
    """The loaded program; a library from the cache only where it is as it was made. Raises OSError where the folder
    does not serve."""
    generated, compiler, folder = plan.generated, plan.compiler, plan.folder
    texts = units(generated)
    sources = [f"{text}\n".encode() for text in texts]
    flags = _flags(generated, compiler)
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
    _compile(compiler, flags, files, target, [len(text.lines) for text in texts])
    try:
        program = loaded(cached=False)
    except OSError as error:
        remove(target)
        if FORBIDDEN in str(error):
            raise
        said = f"{' '.join(compiler.words)}: what it made cannot be loaded: {error}"
        raise Unsupported(Why(reasons.COMPILER_FAILED, said)) from error
    confirm(target)
    if name.startswith(TRIMMED):
        trim(folder, generated.options.cache_bytes)
    return program


def _compile(compiler: Compiler, flags: tuple[str, ...], files: list[Path], target: Path, lines: list[int]) -> None:
    """One run for a single unit; objects side by side and a link for several. The result appears whole or not at all.
    """
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
        if not is_whole(read(made) or b""):
            said = f"{' '.join(compiler.words)}: it ended without an error and wrote no whole library"
            raise Unsupported(Why(reasons.COMPILER_FAILED, said))
        keep(made, target)


def is_whole(library: bytes) -> bool:
    """Whether a file holds all that its ELF header tells of; to load one that was cut would end the process."""
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
