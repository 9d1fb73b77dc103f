"""The zoo of the tests as trials: the one import of benchmarks that need programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from explorer.records.check.trial import Trial
from programs import MODELS, TRANSFORMERS, ZOO, Model, Program

__all__ = ["MODELS", "TRANSFORMERS", "ZOO", "Model", "Named", "models", "of_model", "of_program"]


@dataclass(frozen=True)
class Named:
    """A trial under a name; `own` says that the model is one of the zoo's, which are to have no break."""

    name: str
    trial: Trial
    own: bool = True


def of_program(program: Program, *, large: bool = False) -> Trial:
    """A call of a zoo program, at its large inputs where asked for and present."""
    args, kwargs = (program.large if large and program.large else program.inputs)()
    return Trial(program.build(), args, kwargs, grad=None if program.grad else False)


def of_model(model: Model, *, training: bool) -> Trial:
    """A call of a network: forward alone in evaluation mode, or forward and backward in training mode."""
    network = model.build().train(training)
    args, kwargs = model.inputs()
    return Trial(network, args, kwargs, grad=training)


def models() -> Iterator[Named]:
    """Every network that is available here, in inference and in training."""
    for own, found in ((True, MODELS), (False, TRANSFORMERS)):
        for model in found:
            if model.available:
                yield Named(f"{model.name} inference", of_model(model, training=False), own)
                yield Named(f"{model.name} training", of_model(model, training=True), own)
