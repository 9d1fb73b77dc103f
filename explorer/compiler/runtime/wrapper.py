"""The wrapper's text as a live function."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.core.text import Text

_numbers = itertools.count()


def execute(text: Text, name: str, names: Mapping[str, Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Run the wrapper's text under a file name that tracebacks can show lines of while its `call`, which this returns,
    is alive."""
    source = str(text) + "\n"
    file = f"<explorer {name} {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = dict(names)
    exec(compile(source, file, "exec"), namespace)
    call: Callable[[Sequence[Any]], tuple[Any, ...]] = namespace["call"]
    weakref.finalize(call, linecache.cache.pop, file, None)
    return call


def release_pools(call: Callable[..., Any]) -> None:
    """Free the memory pools that an executed wrapper keeps between calls."""
    call.__globals__.get("POOLS", {}).clear()
