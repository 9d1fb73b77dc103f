"""One public model beside eager in a process of its own: `python -m benchmarks.models_child NAME` prints JSON lines.

NAME is a model type of transformers ("gpt2"), or "torchvision." and the name of one of its models.
"""

from __future__ import annotations

import copy
import inspect
import json
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

import explorer
from benchmarks.counts import Counts
from benchmarks.fuzz.world import tensors
from explorer.records.check.accuracy import against_eager, compare

SECONDS = 150
"""Of processor time for one model."""
MOST_PARAMETERS = 30_000_000
SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("encoder_hidden_size", "decoder_hidden_size", "projection_dim", "d_embed", "hidden_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers", "depth", "layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "d_inner"), 64),
    **dict.fromkeys(("n_inner", "dim_feedforward", "moe_intermediate_size", "shared_expert_intermediate_size"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_source_positions"), 64),
    **dict.fromkeys(("d_kv", "head_dim", "attention_head_size"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    "vocab_size": 120, "image_size": 32, "patch_size": 8, "num_experts_per_tok": 2, "type_vocab_size": 2,
}  # fmt: skip
"""Fields of a configuration, as transformers' models name them, and what makes them small."""


@dataclass(frozen=True)
class Row:
    """What came of a model in a mode. `whole`: each engine's capture was one graph, by `fullgraph=True`; `graphs`: how
    many it takes otherwise, and the `operators` that they run; `wrong`: what differs from eager, graphs run by eager's
    kernels, and ours as generated code too; `why`: the first line of what `fullgraph` raised."""

    mode: str
    whole: dict[str, bool]
    graphs: dict[str, int]
    operators: dict[str, int]
    wrong: dict[str, str]
    why: dict[str, str]


@dataclass(frozen=True)
class Subject:
    model: nn.Module
    inputs: dict[str, Any]


def main(name: str) -> None:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process; the parent says so
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    subject = torchvision(name.partition(".")[2]) if name.startswith("torchvision.") else transformers(name)
    if subject is None:
        print(json.dumps({"dropped": "eager does not run it with these inputs"}))
        return
    for mode in ("inference", "training"):
        expected = outcome(subject, mode, lambda model: model)
        if isinstance(expected, Exception):
            continue
        if not compare(outcome(subject, mode, lambda model: model), expected).ok:
            continue  # not repeatable
        print(json.dumps(asdict(compared(subject, mode, expected))), flush=True)


def compared(subject: Subject, mode: str, expected: Mapping[str, Any]) -> Row:
    row = Row(mode, {}, {}, {}, {}, {})
    for engine, compile in (("ours", explorer.compile), ("Dynamo", torch.compile)):
        whole = outcome(subject, mode, lambda model, c=compile: c(model, backend=as_it_is, fullgraph=True))
        row.whole[engine] = not isinstance(whole, Exception)
        if isinstance(whole, Exception):
            row.why[engine] = f"{type(whole).__name__}: {whole}".partition("\n")[0][:200]
        counts = Counts()
        parts = outcome(subject, mode, lambda model, c=compile, b=counts.backend: c(model, backend=b))
        row.graphs[engine], row.operators[engine] = counts.graphs, counts.operators
        for found in (whole, parts):
            if (found is parts or row.whole[engine]) and (wrong := differs(subject, mode, expected, found)):
                row.wrong[engine] = wrong
    if wrong := differs(subject, mode, expected, outcome(subject, mode, explorer.compile)):
        row.wrong["ours, generated code"] = wrong
    return row


def as_it_is(graph: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    return graph.forward


def outcome(subject: Subject, mode: str, compile: Callable[[nn.Module], Any]) -> Any:
    """By name, every tensor that a call gives, and in training the gradient of every parameter; or the exception."""
    torch.compiler.reset()
    model = copy.deepcopy(subject.model).train(mode == "training")
    inputs = {name: value.clone() if isinstance(value, Tensor) else value for name, value in subject.inputs.items()}
    try:
        compiled = compile(model)
        torch.manual_seed(1)
        with torch.set_grad_enabled(mode == "training"):
            found = list(tensors(compiled(**inputs)))
        if mode == "training":
            sum((each.square().mean() for each in found if each.requires_grad), torch.zeros(())).backward()
    except Exception as error:  # whatever a program may raise is an outcome
        return error
    return {"output": [each.detach() for each in found], "gradient": {n: p.grad for n, p in model.named_parameters()}}


def differs(subject: Subject, mode: str, expected: Mapping[str, Any], found: Any) -> str:
    """The first tensor that differs from eager's by more than rounding explains."""
    if isinstance(found, Exception):
        return f"raised {type(found).__name__}: {found}"[:200]
    return against_eager(lambda: RunAgain(subject, mode), found, expected).first_mismatch


@dataclass(frozen=True)
class RunAgain:
    """Another call of eager, for the run in float64."""

    subject: Subject
    mode: str

    def observe(self) -> Left:
        return Left(outcome(self.subject, self.mode, lambda model: model))


@dataclass(frozen=True)
class Left:
    found: Mapping[str, Any]

    def values(self) -> Mapping[str, Any]:
        return self.found


def torchvision(name: str) -> Subject | None:
    import torchvision

    model = torchvision.models.get_model(name, weights=None)
    size = 299 if "inception" in name else 224 if name.startswith(("vit", "maxvit", "swin")) else 64
    takes = next(iter(inspect.signature(model.forward).parameters))
    return runs(Subject(model, {takes: torch.randn(2, 3, size, size)}))


def transformers(name: str) -> Subject | None:
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[name]()
    small(config)
    with torch.device("meta"):
        if sum(each.numel() for each in AutoModel.from_config(config).parameters()) > MOST_PARAMETERS:
            return None
    model = AutoModel.from_config(config)
    takes = inspect.signature(model.forward).parameters
    ids = torch.randint(5, 100, (2, 8))
    offers = {
        "input_ids": ids, "pixel_values": torch.randn(2, 3, 32, 32), "input_values": torch.randn(2, 4000),
        "input_features": torch.randn(2, 80, 64), "decoder_input_ids": ids, "inputs": torch.randn(2, 8, 32),
    }  # fmt: skip
    first = model.main_input_name
    for names in ((first,), (first, "decoder_input_ids"), tuple(offers)):
        given = {each: offers[each] for each in names if each in offers and each in takes}
        if given and (subject := runs(Subject(model, given))) is not None:
            return subject
    return None


def small(config: Any) -> None:
    for name, value in SMALL.items():
        if isinstance(getattr(config, name, None), int):
            setattr(config, name, value)
    for value in list(vars(config).values()):
        if hasattr(value, "to_dict"):
            small(value)


def runs(subject: Subject) -> Subject | None:
    found = outcome(subject, "inference", lambda model: model)
    return None if isinstance(found, Exception) or not found else subject


if __name__ == "__main__":
    main(sys.argv[1])
