"""From sources to a loaded program. Inductor: codecache.py (CppCodeCache) and cpp_builder.py."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from explorer.core.reasons import Unsupported, Why
from explorer.core.text import Line, Text
from explorer.ir.program import BuildStep, Generated, Program
from explorer.runtime import reasons
from explorer.runtime.assembly import listing
from explorer.runtime.cache import cache_folder, moved, put, temporary_folder
from explorer.runtime.call import load
from explorer.runtime.compiler import (
    FLAGS,
    LINK_FLAGS,
    chosen_compiler,
    finish,
    libraries,
    machine_flags,
    openmp_library,
    processor,
    run,
)

UNIT_LINES = 1500
"""Lines of kernels from which on they are compiled as several units at a time."""


def build_cpp(generated: Generated) -> Program:
    """Compile the kernels (or find them in the cache), load them and make the callable.

    Raises Unsupported without a compiler, without room for its output, or where it refuses the code."""
    if not generated.kernels:
        return load(generated, None, (), dict)
    wanted = cache_folder(generated.options.cache_dir)
    try:
        built = _built(generated, wanted)
    except OSError as error:
        moved(wanted, temporary_folder(), error)
        try:
            built = _built(generated, temporary_folder())
        except OSError as again:
            raise Unsupported(Why(reasons.NO_ROOM, f"{wanted}: {error}; {temporary_folder()}: {again}")) from again
    show = listing(generated, built.units, (built.step.command[0], *_flags(generated), "-g1", "-S", "-o", "-"))
    return load(generated, Path(built.step.output), (built.step,), show)


@dataclass(frozen=True)
class _Built:
    step: BuildStep
    units: tuple[tuple[Path, Text], ...]


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


def _flags(generated: Generated) -> tuple[str, ...]:
    return (*generated.options.cpp_flags, *machine_flags(), *FLAGS)


def _built(generated: Generated, folder: Path) -> _Built:
    path, version = chosen_compiler()
    texts = units(generated)
    sources = [str(text) + "\n" for text in texts]
    flags = _flags(generated)
    key = hashlib.sha256("\0".join((path, version, processor(), *flags, *openmp_library(), *sources)).encode())
    name = key.hexdigest()[:32]
    target = folder / f"{name}.so"
    started = time.perf_counter()
    files = [put(folder, f"{name}_{number}.cpp" if number else f"{name}.cpp", s) for number, s in enumerate(sources)]
    command = (path, *flags, *LINK_FLAGS, *map(str, files), "-o", str(target), *libraries())
    cached = target.exists()
    if not cached:
        _compile(path, flags, files, target)
    step = BuildStep(Path(path).name, command, version, str(target), time.perf_counter() - started, cached)
    return _Built(step, tuple(zip(files, texts, strict=True)))


def _compile(path: str, flags: tuple[str, ...], files: list[Path], target: Path) -> None:
    """One run for a single unit; objects side by side and a link for several. The result appears whole or not at all.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as scratch:
        made = f"{scratch}/made.so"
        if len(files) == 1:
            finish(run((path, *flags, *LINK_FLAGS, str(files[0]), "-o", made, *libraries())))
        else:
            objects = [f"{scratch}/{file.stem}.o" for file in files]
            started = [run((path, *flags, "-c", str(f), "-o", o)) for f, o in zip(files, objects, strict=True)]
            for process in started:
                finish(process)
            finish(run((path, *flags, *LINK_FLAGS, *objects, "-o", made, *libraries())))
        os.replace(made, target)
