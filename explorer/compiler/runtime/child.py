"""A child process with bounds: on its time, and on what is kept of what it prints."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from explorer.core.files import visible

MESSAGE_BYTES = 8_000
"""Kept of a message: its beginning, and as much of its end."""

UNLESS_TOLD = ("/bin/sh", "-c", 'read -r ended || kill -9 "-$0"')
"""Waits for a line that says that all is well; stops a process group where its input ends without one."""

GRACE = 0.2
"""Seconds to wait for more where a child has ended and something it started still holds its output open."""


@dataclass(frozen=True)
class Ended:
    """How a child ended, and what it printed. `late`: it ran out of time and was stopped."""

    code: int
    output: str
    complaint: str
    late: bool
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.late

    def __str__(self) -> str:
        """What happened, in words, with what it complained of."""
        message = f": {self.complaint}" if self.complaint else " without a message"
        if self.late:
            return f"it had not ended after {self.seconds:.0f} s and was stopped"
        if self.code < 0:
            likely = ", likely because memory ran out" if self.code == -signal.SIGKILL else ""
            return f"killed by signal {-self.code}{likely}{message if self.complaint else ''}"
        return f"ended with code {self.code}{message}"


class Child:
    """A started process. Its input is the text given, or empty. Raises OSError where it cannot be started."""

    def __init__(
        self,
        command: tuple[str, ...],
        *,
        text: str = "",
        environment: Mapping[str, str] | None = None,
        output_bytes: int = MESSAGE_BYTES,
        complaint_bytes: int = MESSAGE_BYTES,
    ) -> None:
        with open_input(text) as given:
            self._process = subprocess.Popen(
                command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(os.environ if environment is None else environment),
                start_new_session=True,  # what a wrapper starts is stopped with it
            )
        self._guard = _guarded(self._process.pid)
        self._output, self._complaint = _Kept(output_bytes), _Kept(complaint_bytes)

    def wait(self, seconds: float) -> Ended:
        """Wait for the end, for so many seconds at most; stop it, with all that it started, where it takes longer."""
        try:
            late = not self._drained(time.monotonic() + seconds)
        finally:
            self.stop()
        return Ended(self._process.returncode, str(self._output), str(self._complaint), late, seconds)

    def stop(self) -> None:
        """End it where it still runs, as after Ctrl-C."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()
            self._process.wait()
        if self._guard is not None:
            self._guard.communicate(b"ended\n")
            self._guard = None
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _drained(self, deadline: float) -> bool:
        """Whether it ended in time. Reads on where the room is used up: a full pipe would hold the child."""
        with selectors.DefaultSelector() as pipes:
            for pipe, kept in ((self._process.stdout, self._output), (self._process.stderr, self._complaint)):
                assert pipe is not None
                pipes.register(pipe, selectors.EVENT_READ, kept)
            while pipes.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                ready = pipes.select(min(left, GRACE))
                if not ready and self._process.poll() is not None:
                    return True
                for key, _ in ready:
                    if part := os.read(key.fd, 1 << 16):
                        key.data.add(part)
                    else:
                        pipes.unregister(key.fileobj)
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


def _guarded(group: int) -> subprocess.Popen[bytes] | None:
    """Stops the process group when this process ends, as by SIGTERM: the end of a pipe tells it. Its input is to be
    given a line where the group has ended. None where there is no shell."""
    try:
        return subprocess.Popen(
            (*UNLESS_TOLD, str(group)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None


def open_input(text: str) -> IO[bytes]:
    """A file that holds the text, in memory, so that nobody has to feed a child while it is read from."""
    if not text:
        return open(os.devnull, "rb")
    file = os.fdopen(os.memfd_create("input"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()
    file.write(text.encode())
    file.seek(0)
    return file


class _Kept:
    """The beginning and the end of a stream."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.head, self.tail, self.total = bytearray(), bytearray(), 0

    def add(self, part: bytes) -> None:
        self.total += len(part)
        free = self.room - len(self.head)
        self.head += part[:free]
        self.tail += part[free:]
        if len(self.tail) > 2 * self.room:  # seldom, since what is kept is moved
            self._trim()

    def _trim(self) -> None:
        del self.tail[: max(0, len(self.tail) - self.room)]

    def __str__(self) -> str:
        self._trim()
        left_out = self.total - len(self.head) - len(self.tail)
        between = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return visible(bytes(self.head + between + self.tail).decode(errors="replace")).strip()
