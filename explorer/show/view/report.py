"""The record as one HTML file with the viewer in it: a page that needs neither network nor server.

The viewer is built from extension/, and its page stands with the JupyterLab extension (static/report.html), so that an
installation holds it once. A checkout in which it was not built gives the page without scripts instead.
"""

from __future__ import annotations

import base64
import gzip
import re
from html import escape
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from explorer.core.files import PACKAGE
from explorer.ir.record import RecordData, encoded
from explorer.records.data.methods import MethodsData
from explorer.records.data.ranks import RanksData
from explorer.show.view import html, methods, ranks

NOT_BUILT = (
    "This page has no viewer, because it was not built in the checkout that made it. "
    "Build it with Node.js 20.19, or 22.12 and newer, and: make extension"
)


def page(shown: RecordData | MethodsData | RanksData) -> str:
    """A complete document. Its only script is the viewer; nothing of what it shows is markup or script in it."""
    file = template()
    if file is None:
        return _without_viewer(shown)
    parts = {
        "title": escape(shown.title),
        "fallback": _fragment(shown),
        "record": base64.b64encode(gzip.compress(encoded(shown), mtime=0)).decode(),
    }
    return re.sub(r"<!--hole:(\w+)-->", lambda hole: parts[hole[1]], file.read_text("utf-8"))


def _without_viewer(shown: RecordData | MethodsData | RanksData) -> str:
    if isinstance(shown, RecordData):
        return html.page(shown, NOT_BUILT)
    body = f"<main><h1>{escape(shown.title)}</h1><p>{escape(NOT_BUILT)}</p>{_fragment(shown)}</main>"
    return html.document(shown.title, body)


def _fragment(shown: RecordData | MethodsData | RanksData) -> str:
    """For a reader without scripts."""
    match shown:
        case MethodsData():
            return methods.html(shown)
        case RanksData():
            return ranks.html(shown)
        case RecordData():
            return html.fragment(shown)


def template() -> Path | None:
    """The built page with holes for a record; None where it was not built."""
    checkout = PACKAGE / "labextension" / "static" / "report.html"
    if checkout.is_file():
        return checkout
    try:
        installed = distribution("torch-explorer").files or []
    except PackageNotFoundError:
        return None
    return next((Path(file.locate()) for file in installed if file.match("torch-explorer/static/report.html")), None)
