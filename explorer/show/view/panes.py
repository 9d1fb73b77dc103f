"""The panes of the viewer: what each shows in a few sentences, the PyTorch 2 paper's term, and what stock torch has for
it ("": nothing). The built viewer takes the texts from the same file (extension/bundle.mjs): no record holds them."""

from __future__ import annotations

from importlib.resources import files

import msgspec


class Pane(msgspec.Struct, frozen=True):
    text: str
    paper: str = ""
    stock: str = ""


PANES = msgspec.json.decode(files(__package__).joinpath("panes.json").read_bytes(), type=dict[str, Pane])
