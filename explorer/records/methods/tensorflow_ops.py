"""ATen operations as operations of a tf.Graph. A rule takes the tensorflow module, the output's fake tensor, and the
node's arguments with TensorFlow tensors in place of torch's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from explorer.core.rules import RuleTable

aten = torch.ops.aten

TF_OPS: RuleTable[Any, Callable[..., Any]] = RuleTable("TensorFlow counterpart")


def dtype_of(tf: Any, dtype: torch.dtype) -> Any:
    """The TensorFlow dtype of the same name. Raises AttributeError for one that TensorFlow lacks."""
    return getattr(tf, str(dtype).removeprefix("torch."))


def _pointwise(name: str, *overloads: Any) -> None:
    """ATen computes in the dtype of the result; numbers among the arguments take it too."""

    def rule(tf: Any, out: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        function: Any = tf
        for part in name.split("."):
            function = getattr(function, part)
        return function(*(_as(tf, out.dtype, each) for each in args))

    TF_OPS.rule(*overloads)(rule)


def _compared(name: str, *overloads: Any) -> None:
    def rule(tf: Any, out: torch.Tensor, x: Any, y: Any) -> Any:
        return getattr(tf.math, name)(x, tf.cast(y, x.dtype))

    TF_OPS.rule(*overloads)(rule)


def _as(tf: Any, dtype: torch.dtype, value: Any) -> Any:
    return tf.cast(value, dtype_of(tf, dtype))


_pointwise("math.multiply", aten.mul.Tensor, aten.mul.Scalar)
_pointwise("math.divide", aten.div.Tensor, aten.div.Scalar)
_pointwise("math.negative", aten.neg.default)
_pointwise("math.abs", aten.abs.default)
_pointwise("math.exp", aten.exp.default)
_pointwise("math.expm1", aten.expm1.default)
_pointwise("math.log", aten.log.default)
_pointwise("math.log1p", aten.log1p.default)
_pointwise("math.sqrt", aten.sqrt.default)
_pointwise("math.rsqrt", aten.rsqrt.default)
_pointwise("math.reciprocal", aten.reciprocal.default)
_pointwise("math.sin", aten.sin.default)
_pointwise("math.cos", aten.cos.default)
_pointwise("math.tanh", aten.tanh.default)
_pointwise("math.erf", aten.erf.default)
_pointwise("math.sigmoid", aten.sigmoid.default)
_pointwise("math.floor", aten.floor.default)
_pointwise("math.ceil", aten.ceil.default)
_pointwise("math.round", aten.round.default)
_pointwise("math.sign", aten.sign.default)
_pointwise("nn.relu", aten.relu.default)
_pointwise("math.pow", aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
_pointwise("math.maximum", aten.maximum.default)
_pointwise("math.minimum", aten.minimum.default)
_pointwise("math.logical_not", aten.logical_not.default)
_pointwise("math.logical_and", aten.logical_and.default)
_pointwise("math.logical_or", aten.logical_or.default)
_compared("greater", aten.gt.Tensor, aten.gt.Scalar)
_compared("greater_equal", aten.ge.Tensor, aten.ge.Scalar)
_compared("less", aten.lt.Tensor, aten.lt.Scalar)
_compared("less_equal", aten.le.Tensor, aten.le.Scalar)
_compared("equal", aten.eq.Tensor, aten.eq.Scalar)
_compared("not_equal", aten.ne.Tensor, aten.ne.Scalar)


@TF_OPS.rule(operator.getitem)
def getitem(tf: Any, out: Any, values: Sequence[Any], index: int) -> Any:
    """One of several results"""
    return values[index]


@TF_OPS.rule(aten.add.Tensor, aten.add.Scalar)
def add(tf: Any, out: torch.Tensor, x: Any, y: Any, alpha: float = 1) -> Any:
    """x + alpha * y"""
    return tf.add(_as(tf, out.dtype, x), _as(tf, out.dtype, y) * _as(tf, out.dtype, alpha))


@TF_OPS.rule(aten.sub.Tensor, aten.sub.Scalar)
def sub(tf: Any, out: torch.Tensor, x: Any, y: Any, alpha: float = 1) -> Any:
    """x - alpha * y"""
    return add(tf, out, x, y, -alpha)


@TF_OPS.rule(aten.rsub.Scalar)
def rsub(tf: Any, out: torch.Tensor, x: Any, y: Any, alpha: float = 1) -> Any:
    """y - alpha * x"""
    return add(tf, out, y, x, -alpha)


@TF_OPS.rule(aten.gelu.default)
def gelu(tf: Any, out: torch.Tensor, x: Any, approximate: str = "none") -> Any:
    """gelu"""
    return tf.nn.gelu(x, approximate=approximate == "tanh")


@TF_OPS.rule(aten.clamp.default)
def clamp(tf: Any, out: torch.Tensor, x: Any, low: Any = None, high: Any = None) -> Any:
    """clamp"""
    x = _as(tf, out.dtype, x)
    x = x if low is None else tf.maximum(x, _as(tf, out.dtype, low))
    return x if high is None else tf.minimum(x, _as(tf, out.dtype, high))


@TF_OPS.rule(aten.where.self)
def where(tf: Any, out: torch.Tensor, condition: Any, x: Any, y: Any) -> Any:
    """where"""
    return tf.where(condition, _as(tf, out.dtype, x), _as(tf, out.dtype, y))


@TF_OPS.rule(aten._to_copy.default, aten.to.dtype)
def to_copy(tf: Any, out: torch.Tensor, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A conversion"""
    return _as(tf, out.dtype, x)


@TF_OPS.rule(aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default)
def clone(tf: Any, out: torch.Tensor, x: Any, **kwargs: Any) -> Any:
    """A copy: values of a tf.Graph are never changed"""
    return tf.identity(x)


@TF_OPS.rule(aten.copy.default)
def copy(tf: Any, out: torch.Tensor, into: Any, x: Any, non_blocking: bool = False) -> Any:
    """x with the shape and dtype of `into`"""
    return tf.broadcast_to(_as(tf, out.dtype, x), out.shape)


@TF_OPS.rule(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def reshape(tf: Any, out: torch.Tensor, x: Any, shape: Any) -> Any:
    """The same elements in another shape"""
    return tf.reshape(x, out.shape)


@TF_OPS.rule(aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def squeeze(tf: Any, out: torch.Tensor, x: Any, *dims: Any) -> Any:
    """A dimension of 1 added or taken away"""
    return tf.reshape(x, out.shape)


@TF_OPS.rule(aten.permute.default)
def permute(tf: Any, out: torch.Tensor, x: Any, dims: Sequence[int]) -> Any:
    """permute"""
    return tf.transpose(x, [dim % len(dims) for dim in dims])


@TF_OPS.rule(aten.t.default)
def transposed(tf: Any, out: torch.Tensor, x: Any) -> Any:
    """t"""
    return tf.transpose(x)


@TF_OPS.rule(aten.transpose.int)
def transpose(tf: Any, out: torch.Tensor, x: Any, first: int, second: int) -> Any:
    """transpose"""
    order = list(range(out.dim()))
    order[first], order[second] = order[second], order[first]
    return tf.transpose(x, order)


@TF_OPS.rule(aten.expand.default)
def expand(tf: Any, out: torch.Tensor, x: Any, shape: Any, implicit: bool = False) -> Any:
    """expand"""
    return tf.broadcast_to(x, out.shape)


@TF_OPS.rule(aten.slice.Tensor)
def slice_(tf: Any, out: torch.Tensor, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """slice"""
    length = x.shape[dim]
    index: list[slice] = [slice(None)] * len(x.shape)
    index[dim] = slice(*slice(start, end, step).indices(length))
    return x[tuple(index)]


@TF_OPS.rule(aten.select.int)
def select(tf: Any, out: torch.Tensor, x: Any, dim: int, index: int) -> Any:
    """select"""
    return tf.gather(x, index % x.shape[dim], axis=dim)


@TF_OPS.rule(aten.cat.default)
def cat(tf: Any, out: torch.Tensor, parts: Sequence[Any], dim: int = 0) -> Any:
    """cat"""
    return tf.concat([_as(tf, out.dtype, part) for part in parts], dim)


@TF_OPS.rule(aten.embedding.default)
def embedding(tf: Any, out: torch.Tensor, weight: Any, index: Any, *rest: Any) -> Any:
    """embedding"""
    return tf.gather(weight, index)


@TF_OPS.rule(aten.full.default)
def full(tf: Any, out: torch.Tensor, size: Any, value: Any, **kwargs: Any) -> Any:
    """full"""
    return tf.fill(out.shape, _as(tf, out.dtype, value))


@TF_OPS.rule(aten.full_like.default)
def full_like(tf: Any, out: torch.Tensor, x: Any, value: Any, **kwargs: Any) -> Any:
    """full_like"""
    return full(tf, out, out.shape, value)


@TF_OPS.rule(aten.scalar_tensor.default)
def scalar_tensor(tf: Any, out: torch.Tensor, value: Any, **kwargs: Any) -> Any:
    """scalar_tensor"""
    return _as(tf, out.dtype, value)


@TF_OPS.rule(aten.arange.start_step)
def arange(tf: Any, out: torch.Tensor, start: Any, end: Any, step: Any = 1, **kwargs: Any) -> Any:
    """arange"""
    return _as(tf, out.dtype, tf.range(start, end, step))


@TF_OPS.rule(aten.mm.default, aten.bmm.default)
def matmul(tf: Any, out: torch.Tensor, x: Any, y: Any) -> Any:
    """A matrix product"""
    return tf.linalg.matmul(x, y)


@TF_OPS.rule(aten.addmm.default)
def addmm(tf: Any, out: torch.Tensor, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    """beta * bias + alpha * x @ y"""
    return beta * bias + alpha * tf.linalg.matmul(x, y)


@TF_OPS.rule(aten.linear.default)
def linear(tf: Any, out: torch.Tensor, x: Any, weight: Any, bias: Any = None) -> Any:
    """x @ weight.T + bias"""
    found = tf.linalg.matmul(x, weight, transpose_b=True)
    return found if bias is None else found + bias


def _reduced(tf: Any, name: str, out: torch.Tensor, x: Any, dims: Any, keep: bool) -> Any:
    axis = None if dims is None or list(dims) == [] else list(dims)
    return _as(tf, out.dtype, getattr(tf.math, name)(x, axis=axis, keepdims=keep))


@TF_OPS.rule(aten.sum.default, aten.sum.dim_IntList)
def sum_(tf: Any, out: torch.Tensor, x: Any, dims: Any = None, keep: bool = False, dtype: Any = None) -> Any:
    """sum"""
    return _reduced(tf, "reduce_sum", out, _as(tf, out.dtype, x), dims, keep)


@TF_OPS.rule(aten.mean.default, aten.mean.dim)
def mean(tf: Any, out: torch.Tensor, x: Any, dims: Any = None, keep: bool = False, dtype: Any = None) -> Any:
    """mean"""
    return _reduced(tf, "reduce_mean", out, _as(tf, out.dtype, x), dims, keep)


@TF_OPS.rule(aten.amax.default)
def amax(tf: Any, out: torch.Tensor, x: Any, dims: Any = None, keep: bool = False) -> Any:
    """amax"""
    return _reduced(tf, "reduce_max", out, x, dims, keep)


@TF_OPS.rule(aten.amin.default)
def amin(tf: Any, out: torch.Tensor, x: Any, dims: Any = None, keep: bool = False) -> Any:
    """amin"""
    return _reduced(tf, "reduce_min", out, x, dims, keep)


@TF_OPS.rule(aten.var.correction)
def var(tf: Any, out: torch.Tensor, x: Any, dims: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
    """var"""
    axis = list(range(len(x.shape))) if dims is None else [dim % len(x.shape) for dim in dims]
    count = 1
    for dim in axis:
        count *= x.shape[dim]
    found = tf.math.reduce_variance(x, axis=axis, keepdims=keepdim)
    return found * _as(tf, out.dtype, count / max(count - correction, 0.0))


@TF_OPS.rule(aten._softmax.default)
def softmax(tf: Any, out: torch.Tensor, x: Any, dim: int, half_to_float: bool = False) -> Any:
    """softmax"""
    return tf.nn.softmax(_as(tf, out.dtype, x), axis=dim)


@TF_OPS.rule(aten._log_softmax.default)
def log_softmax(tf: Any, out: torch.Tensor, x: Any, dim: int, half_to_float: bool = False) -> Any:
    """log_softmax"""
    return tf.nn.log_softmax(_as(tf, out.dtype, x), axis=dim)


@TF_OPS.rule(aten.native_layer_norm.default)
def layer_norm(tf: Any, out: Any, x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    """layer_norm with its mean and inverse deviation"""
    axes = list(range(len(x.shape) - len(shape), len(x.shape)))
    centre, variance = tf.nn.moments(x, axes, keepdims=True)
    inverse = tf.math.rsqrt(variance + eps)
    normal = (x - centre) * inverse
    normal = normal if weight is None else normal * weight
    return (normal if bias is None else normal + bias), centre, inverse


@TF_OPS.rule(aten.convolution.default)
def convolution(
    tf: Any, out: torch.Tensor, x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """A two-dimensional convolution; TensorFlow's CPU kernels want the channels last"""
    if transposed or len(x.shape) != 4:
        raise NotImplementedError("a convolution that is transposed or not two-dimensional has no counterpart here")
    last = tf.transpose(x, [0, 2, 3, 1])
    last = tf.pad(last, [[0, 0], [padding[0]] * 2, [padding[1]] * 2, [0, 0]])
    kernel = tf.transpose(weight, [2, 3, 1, 0])
    found = tf.nn.conv2d(last, kernel, strides=list(stride), padding="VALID", dilations=list(dilation))
    found = tf.transpose(found, [0, 3, 1, 2])
    return found if bias is None else found + tf.reshape(bias, [1, -1, 1, 1])
