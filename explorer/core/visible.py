"""Text that others wrote, as a terminal may show it."""

from __future__ import annotations

_UNSEEN = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
_SHOWN = {code: repr(chr(code))[1:-1] for code in _UNSEEN if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    """The text with each control character written out ("\\x1b"): a terminal would obey it, and move, clear or rename
    what is there. So too what turns the direction of writing, and halves of characters, which no output can hold."""
    return text.translate(_SHOWN)
