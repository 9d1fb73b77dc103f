"""Elementwise work: an activation, a loss and random masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explorer.compiler.autograd.decomps.table import DECOMPOSITIONS
from explorer.compiler.autograd.layouts import computing_dtype, inverse, stride_order, to

aten = torch.ops.aten


@DECOMPOSITIONS.rule(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    grad: Tensor, scores: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int, total: Tensor
) -> Tensor:
    """nll_loss_backward(g, x, t) -> where(arange(classes) == t, -g, 0)"""
    axis = 0 if scores.dim() < 2 else 1
    shape = [1] * scores.dim()
    shape[axis] = -1
    classes = torch.arange(scores.shape[axis], device=scores.device).view(shape)
    wanted = target.unsqueeze(axis) if scores.dim() else target
    flow = grad / total if reduction == 1 else grad
    if reduction == 0 and scores.dim() > 1:
        flow = flow.unsqueeze(axis)
    scaled = -flow if weight is None else -flow * weight.view(shape)
    hit = (classes == wanted) & (wanted != ignore)
    return torch.where(hit, scaled, 0.0).to(scores.dtype).expand(scores.shape)


@DECOMPOSITIONS.rule(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad: Tensor, x: Tensor) -> Tensor:
    """hardsigmoid_backward(g, x) -> where(-3 < x < 3, g / 6, 0), with the sixth that eager has for every dtype"""
    compute = computing_dtype(x.dtype)
    flow = to(to(grad, compute) * SIXTH, x.dtype)
    return torch.where((x > -3.0) & (x < 3.0), flow, 0.0)


SIXTH = 0.1666666716337204
"""In float32."""


@DECOMPOSITIONS.rule(aten.native_dropout.default)
def native_dropout(x: Tensor, p: float, train: bool | None) -> Any:
    """native_dropout(x, p) -> (x * (mask / (1 - p)), mask) with mask = bernoulli(1 - p), as eager does on a CPU

    On a GPU eager draws inside its own kernel, in an order that only that kernel gives.
    """
    if x.device.type != "cpu" or not train or not 0 < p < 1:
        return NotImplemented
    mask = aten.bernoulli.p(torch.empty_like(x, dtype=torch.bool), 1 - p)
    return x * (to(mask, x.dtype) / (1 - p)), mask


@DECOMPOSITIONS.rule(aten.bernoulli.p)
def bernoulli(x: torch.Tensor, p: float, generator: Any = None) -> Any:
    """bernoulli(x, p) -> bernoulli(y, p) permuted, with y contiguous in the order in which x lies in memory.

    Functionalisation writes it for x.bernoulli_(p), which draws in that order; the operator draws in that of the axes.
    """
    order = stride_order(x)
    if order == sorted(order):
        return NotImplemented
    memory = aten.empty.memory_format([x.shape[d] for d in order], dtype=x.dtype, device=x.device)
    return aten.bernoulli.p(memory, p, generator=generator).permute(inverse(order))
