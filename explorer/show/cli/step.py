"""`explorer step`: through the capture of a record, instruction by instruction or from event to event."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from rich.text import Text

from explorer.show.cli.progress import SafeConsole, wide_enough
from explorer.show.record import Record
from explorer.show.view.dap import Adapter, Message
from explorer.show.view.queries import WAYS, Queried
from explorer.show.view.walk import Walk, manual


def step(record: Record, compile: str, at: int | None, query: str | None, what: str = "steps") -> int:
    """What `explorer step` does; its exit code. `what` it goes through is a key of WAYS.

    Raises ValueError for what the record does not have, and for what is no query."""
    console: SafeConsole = wide_enough()

    def echo(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    found: Sequence[Queried[Any, Any]] = getattr(record, what)
    if not found:
        raise ValueError(f"the record of {record.data.title} has no {what}. {WAYS[what]}")
    chosen = next((each for each in found if compile in ("", each.compile.id, each.title())), None)
    if chosen is None:
        known = ", ".join(repr(each.title()) for each in found)
        raise ValueError(f"no {what} of a compile {compile!r}; expected one of {known}")
    if at is not None and at >= len(chosen):
        raise ValueError(f"{chosen.title()} has no step {at}; expected 0 to {len(chosen) - 1}")
    walk = Walk(chosen, echo, at or 0)
    if query is not None:
        return 0 if walk.listed(query) else 1
    if at is not None:
        echo(chosen.text(at))
        return 0
    echo("\n".join(each.summary() for each in found))
    echo(manual(chosen))
    echo(chosen.text(0))
    for line in sys.stdin:
        if not walk.do(line.strip()):
            break
    return 0


# `explorer dap`: the Debug Adapter Protocol on standard input and output, as editors start an adapter.


LARGEST = 16 << 20
"""Bytes of a request."""


def serve(adapter: Adapter, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests until one ends the session, or there are no more. Raises ValueError for what is no request."""
    sent = 0
    while not adapter.ended and (request := received(requests)) is not None:
        for message in adapter.handle(request):
            sent += 1
            text = json.dumps({"seq": sent, **message}).encode()
            answers.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
            answers.flush()


def received(requests: BinaryIO) -> Message | None:
    """The next message: lines of headers, an empty one, and JSON."""
    length = 0
    while (line := requests.readline(LARGEST)) and (header := line.strip()):
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if not line:
        return None
    if not 0 < length <= LARGEST:
        raise ValueError(f"a message of {length} bytes; expected Content-Length and at most {LARGEST}")
    message = json.loads(requests.read(length))
    if not isinstance(message, dict):
        raise ValueError(f"expected a request, got {message!r:.80}")
    return message
