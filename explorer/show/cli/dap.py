"""`explorer dap`: the Debug Adapter Protocol on standard input and output, as editors start an adapter."""

from __future__ import annotations

import json
from typing import BinaryIO

from explorer.show.view.dap import Adapter, Message

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
