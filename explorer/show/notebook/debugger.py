"""JupyterLab's debugger in the recorded steps of a capture: what it asks of stacks, values and moves is answered from
the record, until a cell of the user's stops at a breakpoint or the debugger is turned off."""

from __future__ import annotations

from itertools import count
from typing import Any

from explorer.ir.record import RecordData
from explorer.show.view.dap import Adapter, Message

KERNELS = {"initialize", "attach", "debugInfo", "dumpCell", "setBreakpoints", "setExceptionBreakpoints",
           "configurationDone", "inspectVariables", "modules", "disconnect"}  # fmt: skip
"""Requests that stay the kernel's: how a session begins and ends, and the breakpoints, which are the user's own."""


class Debugging:
    """Takes the place of `process_request` of a kernel's debugger until the session ends, or is given back."""

    def __init__(self, debugger: Any, record: RecordData) -> None:
        """Raises ValueError where the record holds no steps, or the debugger is off."""
        if debugger is None or not debugger.is_started:
            raise ValueError("turn on the debugger first: the bug in the notebook's toolbar")
        self.adapter = Adapter(record)
        self._debugger = debugger
        self._process = debugger.process_request
        self._sent = count(1)

    def begin(self) -> None:
        self._debugger.process_request = self.process
        self._send([self.adapter.stopped("entry")])

    @property
    def on(self) -> bool:
        return bool(self._debugger.process_request == self.process)

    def end(self) -> None:
        if self.on:
            self._debugger.process_request = self._process

    async def process(self, request: Message) -> Message:
        """A request's reply; the events that follow are sent."""
        command = request.get("command")
        if command == "disconnect" or self._debugger.stopped_threads:
            self.end()
        elif command not in KERNELS:
            self.adapter.breakpoints = self._debugger.breakpoint_list
            reply, *events = self.adapter.handle(request)
            self._send(events)
            return reply
        answer: Message = await self._process(request)
        if command == "debugInfo" and self.on:
            answer["body"]["stoppedThreads"] = [self.adapter.thread + 1]
        return answer

    def _send(self, events: list[Message]) -> None:
        for each in events:
            self._debugger.event_callback({"seq": next(self._sent), **each})
