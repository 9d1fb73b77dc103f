"""Two-layer models from `transformers`: their configurations, random weights, dropout off.

All but ResNet attend through `scaled_dot_product_attention` (attn_implementation "sdpa", the library's default),
which is stated rather than left to the default. Each is called with return_dict=True, and the decoders with
use_cache=False; the output is the library's ModelOutput, a dict with attributes.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from zoo.models import Model, classification_loss, model, squared_loss
from zoo.program import Inputs, call

AVAILABLE = find_spec("transformers") is not None
VOCABULARY = 96


def build(model_class: str, config_class: str, mode: str = "train", **config: Any) -> nn.Module:
    """A model of `transformers` from its configuration; the library is imported here, since it is slow and optional."""
    transformers = importlib.import_module("transformers")
    made = getattr(transformers, model_class)(getattr(transformers, config_class)(**config))
    return made.train(mode == "train")


def tokens(**options: Any) -> Inputs:
    return lambda: call(input_ids=torch.randint(2, VOCABULARY, (2, 12)), return_dict=True, **options)


def masked_tokens(**options: Any) -> Inputs:
    def make() -> Any:
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 9:] = 0
        ids = torch.randint(2, VOCABULARY, (2, 12))
        return call(input_ids=ids, attention_mask=mask, return_dict=True, **options)

    return make


def image(**options: Any) -> Inputs:
    return lambda: call(pixel_values=torch.randn(2, 3, 32, 32), return_dict=True, **options)


def logits_loss(output: Any) -> Tensor:
    return classification_loss(output.logits)


def hidden_loss(output: Any) -> Tensor:
    return squared_loss(output.last_hidden_state)


def gpt2() -> nn.Module:
    return build(
        "GPT2LMHeadModel",
        "GPT2Config",
        vocab_size=VOCABULARY,
        n_positions=32,
        n_embd=64,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=1,
        attn_implementation="sdpa",
    )


def bert() -> nn.Module:
    return build(
        "BertForMaskedLM",
        "BertConfig",
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )


def llama() -> nn.Module:
    return build(
        "LlamaForCausalLM",
        "LlamaConfig",
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        bos_token_id=0,
        eos_token_id=1,
        attn_implementation="sdpa",
    )


def t5_encoder() -> nn.Module:
    return build(
        "T5EncoderModel",
        "T5Config",
        vocab_size=VOCABULARY,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        attn_implementation="sdpa",
    )


def vit() -> nn.Module:
    return build(
        "ViTForImageClassification",
        "ViTConfig",
        image_size=32,
        patch_size=8,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=10,
        attn_implementation="sdpa",
    )


def resnet() -> nn.Module:
    return build(
        "ResNetForImageClassification",
        "ResNetConfig",
        embedding_size=16,
        hidden_sizes=[16, 32],
        depths=[1, 1],
        layer_type="basic",
        num_labels=10,
    )


TRANSFORMERS: tuple[Model, ...] = (
    model("hf_gpt2", gpt2, tokens(use_cache=False), logits_loss, available=AVAILABLE, note="causal, tied weights"),
    model("hf_bert", bert, masked_tokens(), logits_loss, available=AVAILABLE, note="padding mask, tied weights"),
    model(
        "hf_llama",
        llama,
        tokens(use_cache=False),
        logits_loss,
        available=AVAILABLE,
        note="rotary, grouped query, RMS norm",
    ),
    model(
        "hf_t5_encoder", t5_encoder, masked_tokens(), hidden_loss, available=AVAILABLE, note="relative position bias"
    ),
    model("hf_vit", vit, image(), logits_loss, available=AVAILABLE, note="patches by convolution"),
    model("hf_resnet", resnet, image(), logits_loss, available=AVAILABLE, note="batch norm, no attention"),
)
