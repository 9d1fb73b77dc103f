"""The storage of a tensor, of which a program may ask how large it is."""

from __future__ import annotations

from typing import Any

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.core.reasons import unsupported
from explorer.ir.capture import Returned

SIZE = ("size", "nbytes", "__len__")


class StorageValue(Value):
    """tensor.untyped_storage()."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def python_type(self) -> type:
        return torch.UntypedStorage

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "device":
            return t.from_python(self.tensor.fake.device)
        if name not in SIZE:
            unsupported(reasons.ATTRIBUTE, f"tensor.untyped_storage().{name}")
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name not in SIZE or args or kwargs:
            unsupported(reasons.UNTRACEABLE_CALL, f"tensor.untyped_storage().{name}()")
        return self.length(t)

    def length(self, t: Tracer) -> Value:
        """In bytes: of an input, whose storage may be larger than the tensor, as it is found."""
        for source, real, _ in t.tape.sharing(self.tensor.fake):
            return t.wrap(Returned(Returned(source, "untyped_storage"), "nbytes"), real.untyped_storage().nbytes())
        return t.from_python(self.tensor.fake.untyped_storage().nbytes())

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(torch.Tensor.untyped_storage, [self.tensor])

    def describe(self) -> str:
        return f"the storage of {self.tensor.describe()}"
