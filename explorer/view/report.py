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

import msgspec

from explorer.ir.methods import MethodsData
from explorer.ir.record import RecordData
from explorer.view import html, methods

NOT_BUILT = (
    "This page has no viewer, because it was not built in the checkout that made it. "
    "Build it with Node.js 20 and: make extension"
)


def page(record: RecordData | MethodsData) -> str:
    """A complete document. Its only script is the viewer; nothing of the record is markup or script in it."""
    file = template()
    compared = isinstance(record, MethodsData)
    if file is None:
        return methods.page(record, NOT_BUILT) if compared else html.page(record, NOT_BUILT)
    parts = {
        "title": escape(record.title),
        "fallback": methods.html(record) if compared else html.fragment(record),
        "record": base64.b64encode(gzip.compress(msgspec.json.encode(record), mtime=0)).decode(),
    }
    return re.sub(r"<!--hole:(\w+)-->", lambda hole: parts[hole[1]], file.read_text("utf-8"))


def template() -> Path | None:
    """The built page with holes for a record; None where it was not built."""
    checkout = Path(__file__).parent.parent / "labextension" / "static" / "report.html"
    if checkout.is_file():
        return checkout
    try:
        installed = distribution("torch-explorer").files or []
    except PackageNotFoundError:
        return None
    return next((Path(file.locate()) for file in installed if file.match("torch-explorer/static/report.html")), None)
