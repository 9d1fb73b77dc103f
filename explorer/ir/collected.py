"""The parts of one stock compile, collected while it runs or while its log is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from explorer.ir import record as data


@dataclass
class CollectedCompile:
    """What is known of one compile so far."""

    id: str
    title: str
    stages: list[data.StageData] = field(default_factory=list)
    guards: list[data.GuardData] = field(default_factory=list)
    breaks: list[data.BreakData] = field(default_factory=list)
    symbols: list[data.SymbolData] = field(default_factory=list)
    inputs: list[data.InputData] = field(default_factory=list)
    recompiles: list[data.RecompileData] = field(default_factory=list)
    events: list[data.EventData] = field(default_factory=list)
    error: str = ""
    raises: bool = False

    def whole(self, started: float, seconds: float, **more: Any) -> data.CompileData:
        """The compile as data; `more` are fields that only some sources have."""
        return data.CompileData(
            self.id,
            self.title,
            started,
            seconds,
            stages=tuple(self.stages),
            guards=tuple(self.guards),
            breaks=tuple(self.breaks),
            symbols=tuple(self.symbols),
            inputs=tuple(self.inputs),
            recompiles=tuple(self.recompiles),
            events=tuple(self.events),
            error=self.error,
            raises=self.raises,
            engine="stock",
            **more,
        )
