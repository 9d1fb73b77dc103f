"""ATen operations as operations of a tf.Graph. A rule takes the tensorflow module, the output's fake tensor, and the
node's arguments with TensorFlow tensors in place of torch's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from explorer.core.rules import RuleTable

aten = torch.ops.aten

TF_OPS: RuleTable[object, Callable[..., object]] = RuleTable("TensorFlow counterpart")


def dtype_of(tf: object, dtype: torch.dtype) -> object:
    """The TensorFlow dtype of the same name. Raises AttributeError for one that TensorFlow lacks."""
    return getattr(tf, str(dtype).removeprefix("torch."))


def _pointwise(name: str) -> Callable[..., object]:
    """ATen computes in the dtype of the result; numbers among the arguments take it too."""

    def rule(tf: object, out: torch.Tensor, *args: object, **kwargs: object) -> object:
        return operator.attrgetter(name)(tf)(*(_as(tf, out.dtype, each) for each in args))

    return rule


def _compared(name: str) -> Callable[..., object]:
    return lambda tf, out, x, y: getattr(tf.math, name)(x, tf.cast(y, x.dtype))


def _as(tf: Any, dtype: torch.dtype, value: object) -> Any:
    return tf.cast(value, dtype_of(tf, dtype))


def _reduced(name: str) -> Callable[..., object]:
    def rule(
        tf: Any, out: torch.Tensor, x: object, dims: Any = None, keep: bool = False, dtype: object = None
    ) -> object:
        axis = None if dims is None or list(dims) == [] else list(dims)
        return _as(tf, out.dtype, getattr(tf.math, name)(_as(tf, out.dtype, x), axis=axis, keepdims=keep))

    return rule


for _name in (
    "math.negative math.abs math.exp math.expm1 math.log math.log1p math.sqrt math.rsqrt math.reciprocal math.sin "
    "math.cos math.tanh math.erf math.sigmoid math.floor math.ceil math.round math.sign nn.relu math.maximum "
    "math.minimum math.logical_not math.logical_and math.logical_or"
).split():
    _aten = {"negative": "neg"}.get(_name.partition(".")[2], _name.partition(".")[2])
    TF_OPS.rule(getattr(aten, _aten).default)(_pointwise(_name))
for _aten, _name in {"gt": "greater", "ge": "greater_equal", "lt": "less", "le": "less_equal", "eq": "equal",
                     "ne": "not_equal"}.items():  # fmt: skip
    TF_OPS.rule(getattr(aten, _aten).Tensor, getattr(aten, _aten).Scalar)(_compared(_name))


@TF_OPS.rule(aten.add.Tensor, aten.add.Scalar)
def add(tf: Any, out: torch.Tensor, x: object, y: object, alpha: float = 1) -> object:
    """x + alpha * y"""
    return tf.add(_as(tf, out.dtype, x), _as(tf, out.dtype, y) * _as(tf, out.dtype, alpha))


@TF_OPS.rule(aten.clamp.default)
def clamp(tf: Any, out: torch.Tensor, x: object, low: object = None, high: object = None) -> object:
    """clamp"""
    x = _as(tf, out.dtype, x)
    x = x if low is None else tf.maximum(x, _as(tf, out.dtype, low))
    return x if high is None else tf.minimum(x, _as(tf, out.dtype, high))


@TF_OPS.rule(aten.transpose.int)
def transpose(tf: Any, out: torch.Tensor, x: object, first: int, second: int) -> object:
    """transpose"""
    order = list(range(out.dim()))
    order[first], order[second] = order[second], order[first]
    return tf.transpose(x, order)


@TF_OPS.rule(aten.slice.Tensor)
def slice_(
    tf: object, out: torch.Tensor, x: Any, dim: int = 0, start: object = None, end: object = None, step: int = 1
) -> object:
    """slice"""
    length = x.shape[dim]
    index: list[slice] = [slice(None)] * len(x.shape)
    index[dim] = slice(*slice(start, end, step).indices(length))
    return x[tuple(index)]


@TF_OPS.rule(aten.linear.default)
def linear(tf: Any, out: torch.Tensor, x: object, weight: object, bias: object = None) -> object:
    """x @ weight.T + bias"""
    found = tf.linalg.matmul(x, weight, transpose_b=True)
    return found if bias is None else found + bias


@TF_OPS.rule(aten.var.correction)
def var(tf: Any, out: torch.Tensor, x: Any, dims: Any = None, correction: float = 1, keepdim: bool = False) -> object:
    """var"""
    axis = list(range(len(x.shape))) if dims is None else [dim % len(x.shape) for dim in dims]
    count = 1
    for dim in axis:
        count *= x.shape[dim]
    found = tf.math.reduce_variance(x, axis=axis, keepdims=keepdim)
    return found * _as(tf, out.dtype, count / max(count - correction, 0.0))


@TF_OPS.rule(aten.native_layer_norm.default)
def layer_norm(tf: Any, out: object, x: Any, shape: Sequence[int], weight: object, bias: object, eps: float) -> object:
    """layer_norm with its mean and inverse deviation"""
    axes = list(range(len(x.shape) - len(shape), len(x.shape)))
    center, variance = tf.nn.moments(x, axes, keepdims=True)
    inverse = tf.math.rsqrt(variance + eps)
    normal = (x - center) * inverse
    normal = normal if weight is None else normal * weight
    return (normal if bias is None else normal + bias), center, inverse


@TF_OPS.rule(aten.convolution.default)
def convolution(
    tf: Any, out: torch.Tensor, x: Any, weight: object, bias: object, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> object:  # fmt: skip
    """A two-dimensional convolution; TensorFlow's CPU kernels want the channels last"""
    if transposed or len(x.shape) != 4:
        raise NotImplementedError("a convolution that is transposed or not two-dimensional has no counterpart here")
    last = tf.transpose(x, [0, 2, 3, 1])
    last = tf.pad(last, [[0, 0], [padding[0]] * 2, [padding[1]] * 2, [0, 0]])
    kernel = tf.transpose(weight, [2, 3, 1, 0])
    found = tf.nn.conv2d(last, kernel, strides=list(stride), padding="VALID", dilations=list(dilation))
    found = tf.transpose(found, [0, 3, 1, 2])
    return found if bias is None else found + tf.reshape(bias, [1, -1, 1, 1])


_RULES: dict[tuple[object, ...], Callable[..., object]] = {
    (aten.mul.Tensor, aten.mul.Scalar): _pointwise("math.multiply"),
    (aten.div.Tensor, aten.div.Scalar): _pointwise("math.divide"),
    (aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar): _pointwise("math.pow"),
    (aten.sub.Tensor, aten.sub.Scalar): lambda tf, out, x, y, alpha=1: add(tf, out, x, y, -alpha),
    (aten.rsub.Scalar,): lambda tf, out, x, y, alpha=1: add(tf, out, y, x, -alpha),
    (aten.gelu.default,): lambda tf, out, x, approximate="none": tf.nn.gelu(x, approximate=approximate == "tanh"),
    (aten.where.self,): lambda tf, out, holds, x, y: tf.where(holds, _as(tf, out.dtype, x), _as(tf, out.dtype, y)),
    (aten._to_copy.default, aten.to.dtype): lambda tf, out, x, *args, **facts: _as(tf, out.dtype, x),
    # Values of a tf.Graph are never changed: a copy is the value.
    (aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default):
        lambda tf, out, x, **facts: tf.identity(x),
    (aten.copy.default,):
        lambda tf, out, into, x, non_blocking=False: tf.broadcast_to(_as(tf, out.dtype, x), out.shape),
    (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default, aten.squeeze.default,
     aten.squeeze.dim, aten.squeeze.dims): lambda tf, out, x, *args: tf.reshape(x, out.shape),
    (aten.permute.default,): lambda tf, out, x, dims: tf.transpose(x, [dim % len(dims) for dim in dims]),
    (aten.t.default,): lambda tf, out, x: tf.transpose(x),
    (aten.expand.default,): lambda tf, out, x, shape, implicit=False: tf.broadcast_to(x, out.shape),
    (aten.select.int,): lambda tf, out, x, dim, index: tf.gather(x, index % x.shape[dim], axis=dim),
    (aten.cat.default,): lambda tf, out, parts, dim=0: tf.concat([_as(tf, out.dtype, part) for part in parts], dim),
    (aten.embedding.default,): lambda tf, out, weight, index, *rest: tf.gather(weight, index),
    (aten.full.default, aten.full_like.default):
        lambda tf, out, like, value, **facts: tf.fill(out.shape, _as(tf, out.dtype, value)),
    (aten.scalar_tensor.default,): lambda tf, out, value, **facts: _as(tf, out.dtype, value),
    (aten.arange.start_step,):
        lambda tf, out, start, end, step=1, **facts: _as(tf, out.dtype, tf.range(start, end, step)),
    (aten.mm.default, aten.bmm.default): lambda tf, out, x, y: tf.linalg.matmul(x, y),
    (aten.addmm.default,):
        lambda tf, out, bias, x, y, beta=1, alpha=1: beta * bias + alpha * tf.linalg.matmul(x, y),
    (aten.sum.default, aten.sum.dim_IntList): _reduced("reduce_sum"),
    (aten.mean.default, aten.mean.dim): _reduced("reduce_mean"),
    (aten.amax.default,): _reduced("reduce_max"),
    (aten.amin.default,): _reduced("reduce_min"),
    (aten._softmax.default,): lambda tf, out, x, dim, half: tf.nn.softmax(_as(tf, out.dtype, x), axis=dim),
    (aten._log_softmax.default,): lambda tf, out, x, dim, half: tf.nn.log_softmax(_as(tf, out.dtype, x), axis=dim),
    (operator.getitem,): lambda tf, out, values, index: values[index],
}  # fmt: skip
for _overloads, _rule in _RULES.items():
    TF_OPS.rule(*_overloads)(_rule)
