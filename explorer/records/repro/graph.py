"""A file that reproduces a graph of a record: the captured one, or what a later stage made of it."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.core.files import visible
from explorer.ir.record import CompileData, RecordData, StageData
from explorer.records.repro.program import CannotReproduce, function, made, printed, tensor_type

WARNING = (
    "Running this file runs what the record holds. Read it first where the record is from somebody else.",
    "Inputs have the shapes, strides and dtypes of the record; their values are random (seed 0), integers 0 or 1.",
)

TENSOR = """
GENERATOR = torch.Generator().manual_seed(0)


def tensor(sizes, dtype, strides=None, device="cpu", grad=False):
    strides = torch.empty(sizes, device="meta").stride() if strides is None else strides
    reach = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if 0 not in sizes else 0
    if dtype.is_floating_point or dtype.is_complex:
        memory = torch.randn(reach, dtype=torch.float64, generator=GENERATOR).to(dtype)
    else:
        memory = torch.randint(0, 2, (reach,), generator=GENERATOR).to(dtype)
    value = memory.to(device).as_strided(sizes, strides)
    return value.requires_grad_() if grad else value
"""

MAIN = """
def outputs(found):
    if isinstance(found, torch.Tensor):
        return [found.detach()]
    return [each for part in found for each in outputs(part)] if isinstance(found, (list, tuple)) else []


def run(function):
    GENERATOR.manual_seed(0)
    torch.manual_seed(0)
    return outputs(function(*inputs()))


if __name__ == "__main__":
    found = run(graph)
    for value, expected in zip(found, RECORDED, strict=True):
        same = (tuple(value.shape), value.dtype) == expected
        print(tuple(value.shape), value.dtype, "" if same else f"but the record has {expected}")
    if "--compile" in sys.argv:
        for value, other in zip(found, run(torch.compile(graph)), strict=True):
            far = (value.double() - other.double()).abs().max().item() if value.numel() else 0.0
            print("largest difference under torch.compile:", far)
"""


def repro_graph(record: RecordData, compile: CompileData, stage: StageData) -> str:
    """The file's text. Raises CannotReproduce with what cannot be written, and why."""
    if stage.body is None:
        raise CannotReproduce(f"stage {stage.id} holds no text")
    found = printed(stage.body)
    hints = hints_of(compile)
    inputs = [each for each in found.inputs if not each.constant]
    constants = [each for each in found.inputs if each.constant]
    types = {each.name: each.type for each in found.calls}
    returned = [types.get(getattr(each, "id", ""), "") for each in getattr(found.returns, "elts", [])]
    recorded = [tensor for each in returned if (tensor := tensor_type(each, hints)) is not None]
    notes = [f"{each.name} stands for a constant, whose values a record does not hold." for each in constants]
    return "\n".join(
        [
            *header(record, f"the graph {found.name} after the stage {stage.name}", notes),
            "import math\nimport operator\nimport sys\n\nimport torch",
            TENSOR,
            "",
            "def inputs():",
            f"    return ({''.join(f'{made(each, hints)}, ' for each in inputs)})",
            "",
            "",
            *(f"{each.name} = {made(each, hints)}" for each in constants),
            function("graph", found.calls, [each.name for each in inputs], found.returns),
            "",
            "",
            f"RECORDED = [{', '.join(f'({each.sizes}, {each.dtype})' for each in recorded)}]",
            "",
            MAIN,
        ]
    )


def hints_of(compile: CompileData) -> dict[str, int]:
    return {each.name: each.hint for each in compile.symbols if each.hint is not None and each.name.isidentifier()}


def header(record: RecordData, what: str, notes: Iterable[str]) -> list[str]:
    """Comments alone, whatever the record's words are."""
    made_with = ", ".join(f"{name} {record.environment.get(name, '')}" for name in ("torch", "python", "C++ compiler"))
    lines = [f"Reproduces {what} of {record.title}.", f"Recorded {record.created} with {made_with}.", *WARNING, *notes]
    return [f"# {visible(line).replace(chr(10), ' ').replace(chr(9), ' ')}" for line in lines] + [""]
