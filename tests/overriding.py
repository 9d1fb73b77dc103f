"""Classes of tensors that tests of overrides share."""

import torch
from torch.testing._internal.two_tensor import TwoTensor


class Named(torch.Tensor):
    def __new__(cls, data, name):
        return torch.Tensor.as_subclass(data, cls)

    def __init__(self, data, name):
        self.label = name


def written(x):
    y = x * 2
    y.add_(1)
    y[0] = 5
    return y


def without(x):
    with torch._C.DisableTorchFunctionSubclass():
        return torch.sigmoid(x) + 1


class Scaled(torch.Tensor):
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.size(), strides=data.stride(), dtype=data.dtype)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner, scale, size, stride):
        return Scaled(inner["data_"], scale)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        scale = next(a.scale for a in args if isinstance(a, Scaled))
        return Scaled(func(*[a.data_ if isinstance(a, Scaled) else a for a in args], **(kwargs or {})), scale)


def two():
    return TwoTensor(torch.arange(3.0), torch.arange(3.0) + 1)


def inside(value):
    if isinstance(value, TwoTensor):
        return "two", inside(value.a), inside(value.b)
    if isinstance(value, Scaled):
        return "scaled", inside(value.data_), value.scale
    if isinstance(value, (tuple, list)):
        return [inside(item) for item in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value
