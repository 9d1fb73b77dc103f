"""What torch's log artifact perf_hints says of a compile, also where the program does not show it (TORCH_LOGS)."""

from __future__ import annotations

import logging
from typing import Any

from torch._inductor.virtualized import V

from explorer.records.stock.breaks import place
from explorer.records.stock.hook import Hook, Patch, watcher

ARTIFACT = "perf_hint_log"
"""What torch's modules call the artifact's logger."""


class ReportingLogger:
    """A logger whose messages go to the watcher of this thread too. To its callers it is on while somebody watches; the
    program sees of it what it asked for."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802, the name is logging's
        return watcher() is not None or bool(self._logger.isEnabledFor(level))

    def info(self, message: Any, *args: Any) -> None:
        self._log(logging.INFO, message, args)

    def warning(self, message: Any, *args: Any) -> None:
        self._log(logging.WARNING, message, args)

    def _log(self, level: int, message: Any, args: tuple[Any, ...]) -> None:
        message = "".join(message) if isinstance(message, tuple) else message
        watch: Any = watcher()
        if watch is not None:
            try:
                node = getattr(V.graph, "current_node", None)
                text = " ".join((message % args if args else str(message)).split())
                watch.compile().event("PerformanceHint", said=text, at=place([node]) if node is not None else "")
            except Exception as error:
                watch.failed(ARTIFACT, error)
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.log(level, message, *args, stacklevel=3)


MODULES = ("_inductor.graph", "_inductor.compile_fx", "_inductor.codegen.simd", "_dynamo.variables.optimizer")

HOOK = Hook(
    "hints",
    shows="what torch's log artifact perf_hints says: operators without generated code, tilings that may be slow",
    missing="torch's hints on performance",
    checked=(),
    patches=tuple(Patch(f"torch.{module}:{ARTIFACT}", instead=ReportingLogger) for module in MODULES),
)
