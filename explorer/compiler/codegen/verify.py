"""What must hold of generated code; a violation is a bug in this package."""

from __future__ import annotations

from explorer.core.text import Text
from explorer.ir.program import Generated


def verify_generated(generated: Generated) -> None:
    """Raise AssertionError unless kernels have ids of their own and origins, each is called once, by an entry or by the
    wrapper, and the wrapper names only what there is."""
    ids = [kernel.id for kernel in generated.kernels]
    assert len(set(ids)) == len(ids), f"{generated.name}: two kernels share an id"
    for kernel in generated.kernels:
        assert kernel.origins and has_origin(kernel.source), f"{kernel.id} comes from nothing"
    entered = [id for entry in generated.entries for id in entry.kernels]
    inside = set(entered)
    assert len(inside) == len(entered), f"{generated.name}: a kernel is called twice"
    assert inside <= set(ids), f"{generated.name} calls {inside - set(ids)}, which it lacks"
    wrapper = str(generated.wrapper)
    called = [entry.function for entry in generated.entries]
    called += [kernel.function for kernel in generated.kernels if kernel.id not in inside]
    lacking = [name for name in (*called, *(name for _, name in generated.externs)) if name not in wrapper]
    assert not lacking, f"{generated.name} never calls {lacking}"
    unknown = [name for _, name in generated.externs if name not in generated.constants]
    assert not unknown, f"{generated.name} has no {unknown}"


def has_origin(source: Text) -> bool:
    return any(line.origins for line in source.lines)
