"""What a program can ask of a tensor without a node in the graph, and what makes the answer hold in later calls.

Each attribute or method of a tensor is guarded with the tensor, guarded by itself when it is asked for, recorded in the
graph, or refused. A name that is not here has no answer while tracing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch

Held = Literal["tensor guard", "own guard", "graph"]
"""tensor guard: a function of what the guard on every tensor input checks (type, dtype, device, sizes, strides,
requires_grad, dispatch keys). own guard: checked for the input once the program asks. graph: a node."""

_TENSOR_GUARD = (
    # Attributes
    "dtype device layout shape ndim requires_grad is_cuda is_cpu is_mps is_xpu is_meta is_sparse is_sparse_csr "
    "is_quantized is_mkldnn is_nested is_ipu is_maia is_vulkan is_mtia itemsize nbytes "
    # Methods, and functions of the same name
    "size stride dim ndimension numel nelement element_size get_device dim_order is_contiguous is_floating_point "
    "is_complex is_signed is_conj is_neg is_inference is_same_size type is_distributed has_names __len__ "
    "result_type can_cast _is_zerotensor _has_compatible_shallow_copy_type"
)  # fmt: skip
_OWN_GUARD = "is_leaf output_nr retains_grad storage_offset is_pinned _is_view"
_GRAPH = "T mT H mH real imag data"

TENSOR_PROPERTIES: Mapping[str, Held] = {
    **dict.fromkeys(_TENSOR_GUARD.split(), "tensor guard"),
    **dict.fromkeys(_OWN_GUARD.split(), "own guard"),
    **dict.fromkeys(_GRAPH.split(), "graph"),
}  # fmt: skip


def version(tensor: torch.Tensor) -> int | object:
    """How often it was written; of an inference tensor, whose writes nobody counts, something equal to nothing else."""
    return object() if tensor.is_inference() else tensor._version
