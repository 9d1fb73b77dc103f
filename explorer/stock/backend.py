"""Our graph compiler as a back end of stock `torch.compile`, found by name also where the package is not installed."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from torch._dynamo.backends import registry

ENTRY_POINT = EntryPoint("explorer", "explorer.api:stock_backend", "torch_dynamo_backends")


def register() -> None:
    """Make `torch.compile(fn, backend="explorer")` work. A second call changes nothing.

    Enters what an installed package's metadata would give, so that Dynamo loads it as it loads that one.
    """
    registry._BACKENDS.setdefault(ENTRY_POINT.name, ENTRY_POINT)
