"""Which of torch's decompositions are applied, and the table of our own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions

from explorer.core.rules import RuleTable

Decomposition = Callable[..., Any]
Dims = Sequence[int] | None
aten = torch.ops.aten

TORCHS: tuple[str, ...] = tuple(
    # activations, with their backwards
    "celu elu elu_backward gelu gelu_backward glu glu_backward hardshrink hardsigmoid hardswish "
    "hardswish_backward hardtanh hardtanh_backward leaky_relu leaky_relu_backward log_sigmoid_forward "
    "log_sigmoid_backward mish mish_backward _prelu_kernel _prelu_kernel_backward sigmoid_backward silu silu_backward "
    "softplus softplus_backward softshrink tanh_backward threshold threshold_backward rrelu_with_noise_backward "
    # softmax and norms
    "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data _safe_softmax logsumexp "
    "native_layer_norm native_layer_norm_backward native_group_norm_backward "
    "_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training "
    "_batch_norm_with_update _batch_norm_with_update_functional _batch_norm_no_update native_batch_norm "
    "native_batch_norm_backward batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward "
    "_fused_rms_norm _fused_rms_norm_backward linalg_vector_norm norm renorm "
    # losses
    "binary_cross_entropy_backward binary_cross_entropy_with_logits huber_loss "
    "huber_loss_backward l1_loss mse_loss mse_loss_backward multi_margin_loss multilabel_margin_loss_forward "
    "nll_loss_forward nll_loss2d_forward smooth_l1_loss smooth_l1_loss_backward soft_margin_loss "
    "soft_margin_loss_backward "
    # scalar functions
    "addcdiv addcmul addr clamp_max clamp_min deg2rad rad2deg floor_divide frac heaviside lerp logaddexp logaddexp2 "
    "logit logit_backward mvlgamma nan_to_num rsub sgn sinc special_entr special_log_ndtr special_xlog1py xlogy "
    "isneginf isposinf dist "
    # small products and reductions
    "addmv mv dot vdot aminmax count_nonzero nansum std std_mean trace _euclidean_dist "
    # indexing and scattering
    "embedding_dense_backward isin masked_fill take unfold_backward "
    "diagonal_backward select_backward slice_backward diag_embed "
    "reflection_pad1d reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d "
    "reflection_pad3d_backward replication_pad1d replication_pad2d replication_pad3d im2col col2im "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d upsample_linear1d upsample_trilinear3d "
    # views, copies and factories
    "_reshape_alias t transpose stack block_diag channel_shuffle pixel_shuffle pixel_unshuffle roll rot90 "
    "narrow narrow_copy tril triu tril_indices triu_indices eye fill affine_grid_generator "
    "alias_copy diagonal_copy expand_copy permute_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy "
    "unbind_copy unfold_copy unsqueeze_copy view_copy native_dropout_backward".split()
)
"""ATen names whose decompositions are taken from torch as they are, all overloads."""

DECOMPOSITIONS: RuleTable[torch._ops.OpOverload, Decomposition] = RuleTable("decomposition")
"""Our own. A rule may return NotImplemented to leave the call whole."""


@functools.cache
def torchs() -> dict[Any, Decomposition]:
    """torch's decompositions named above."""
    return dict(get_decompositions([getattr(aten, name) for name in TORCHS if hasattr(aten, name)]))


def decompositions() -> dict[torch._ops.OpOverload, Decomposition]:
    """What TRACE applies: torch's decompositions, overridden by ours."""
    return {**torchs(), **DECOMPOSITIONS}


def reference_of_prim(operator: torch._ops.OpOverload) -> Decomposition | None:
    """The ATen body of a `prims` operator: torch's decompositions may call prims, a traced graph holds none."""
    packet = operator._overloadpacket
    body: Decomposition | None = getattr(packet, "impl_aten", None) if operator.namespace == "prims" else None
    return body
