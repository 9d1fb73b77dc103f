"""Runs generated Triton kernels on the CPU in Triton's interpreter, for tests and for looking inside a kernel.

The process has to be started with TRITON_INTERPRET=1, which makes `triton.jit` yield interpreted functions.
The interpreter has no libdevice, and rounds to bfloat16 by cutting off: torch stands in for both. It also forgets that
the comparison of two scalars is a bool, and has no atomics of bfloat16.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.interpreter import InterpreterOptions, ReduceOps, TensorHandle, interpreter_builder

from explorer.compiler.runtime.stepwise import execute
from explorer.compiler.runtime.triton_build import module, write_module
from explorer.ir.program import Generated, TritonKernel
from explorer.ir.scalar import OPS

SUBSTITUTES: dict[str, Callable[..., torch.Tensor]] = {
    **{name: op.reference for name, op in OPS.items() if hasattr(libdevice, name)}, "rint": torch.round
}  # fmt: skip
"""What computes the libdevice functions that generated code calls."""


def install() -> None:
    """Put the substitutes in place. Raises RuntimeError in a process that was not started for interpreting."""
    if not triton.knobs.runtime.interpret:
        raise RuntimeError("start the process with TRITON_INTERPRET=1 to interpret Triton kernels")
    for name, function in SUBSTITUTES.items():
        setattr(libdevice, name, _elementwise(function))
    interpreter_builder.create_fp_trunc = _truncate
    interpreter_builder.create_splat = _splat
    interpreter_builder.create_atomic_rmw = partial(_atomic, interpreter_builder.create_atomic_rmw)
    ReduceOps.generic_reduce = _reduce_by_halves
    interpreter_builder.options = InterpreterOptions(debug=True, sanitize_overflow=False)


def _elementwise(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        tensors = [torch.from_numpy(np.ascontiguousarray(operand.handle.data)) for operand in operands]
        widest = max(operands, key=lambda operand: operand.handle.data.size)
        data = function(*tensors).numpy()
        return tl.tensor(TensorHandle(data, widest.dtype.scalar), _block(widest.dtype.scalar, data.shape, widest))

    return run


def _block(scalar: Any, shape: tuple[int, ...], like: Any) -> Any:
    return tl.block_type(scalar, list(shape)) if like.type.is_block() else scalar


def _truncate(source: Any, target: Any) -> Any:
    """A narrower float, rounded to nearest even."""
    if target.scalar != tl.bfloat16:
        return interpreter_builder.cast_impl(source, target)
    rounded = torch.from_numpy(np.ascontiguousarray(source.data)).to(torch.bfloat16)
    return TensorHandle(rounded.view(torch.uint16).numpy(), target.scalar)


def _splat(target: Any, value: Any) -> Any:
    """A block of one value, of the dtype that the value has: the result of a comparison says that it is a float."""
    data = np.full([int(extent) for extent in target.shape], value.data.item(), dtype=value.data.dtype)
    return TensorHandle(data, target.scalar)


def _reduce_by_halves(self: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """A reduction with a combine function of ours, half by half: the interpreter goes element by element, in Python."""
    parts = [value.handle.data for value in inputs]
    dtypes = [value.dtype for value in inputs]
    while (extent := parts[0].shape[self.axis]) > 1:
        halves = [np.split(part, [extent // 2, extent // 2 * 2], self.axis) for part in parts]
        left = [self.to_tensor(half[0], dtype) for half, dtype in zip(halves, dtypes, strict=True)]
        right = [self.to_tensor(half[1], dtype) for half, dtype in zip(halves, dtypes, strict=True)]
        joined = self.combine_fn.fn(*left, *right)
        joined = joined if isinstance(joined, tuple) else (joined,)
        parts = [
            np.concatenate([value.handle.data, half[2]], self.axis) for value, half in zip(joined, halves, strict=True)
        ]
    rows = parts if self.keep_dims else [part.squeeze(self.axis) for part in parts]
    return [self.to_tensor(row, dtype) for row, dtype in zip(rows, dtypes, strict=True)]


def _atomic(otherwise: Callable[..., Any], op: Any, pointer: Any, value: Any, mask: Any, *how: Any) -> Any:
    """An atomic update; of bfloat16, which the interpreter lacks, an addition element by element."""
    if value.dtype.scalar != tl.bfloat16:
        return otherwise(op, pointer, value, mask, *how)
    for address, addend, on in zip(pointer.data.flat, value.data.flat, mask.data.flat, strict=True):
        if on:
            element = _tensor_at(int(address), "*bf16")
            element += torch.tensor(addend, dtype=torch.uint16).view(torch.bfloat16)
    return value


def interpreted(generated: Generated, folder: Path) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The program's `call` on CPU tensors, its kernels interpreted. Modules are written under `folder`."""
    names: dict[str, Any] = {
        **generated.constants,
        **launchers(generated, folder),
        "device": torch.device("cpu"),
        "current_stream": int,
        "UNALIGNED": 0,
    }
    return execute(generated.wrapper, generated.name, names)


def launchers(generated: Generated, folder: Path) -> dict[str, Callable[..., None]]:
    """launch(programs, stream, *arguments) for each distinct kernel, as on a card."""
    install()
    distinct = {kernel.function: kernel for kernel in generated.of(TritonKernel)}
    return {name: _launcher(kernel, str(generated.prelude), folder) for name, kernel in distinct.items()}


def _launcher(kernel: TritonKernel, prelude: str, folder: Path) -> Callable[..., None]:
    function = getattr(
        module(write_module(f"{prelude}\n\n\n{kernel.source}\n", kernel.function, folder)), kernel.function
    )
    dtypes = [type if type.startswith("*") else None for type in kernel.types]

    def launch(programs: int, stream: int, *arguments: Any) -> None:
        given = [_tensor_at(a, dtype) if dtype else a for a, dtype in zip(arguments, dtypes, strict=True)]
        with np.errstate(all="ignore"):
            function[(programs,)](*given, **kernel.constants)

    return launch


_DTYPES = {
    "*i1": torch.bool, "*u8": torch.uint8, "*i8": torch.int8, "*i16": torch.int16, "*i32": torch.int32,
    "*i64": torch.int64, "*u16": torch.uint16, "*u32": torch.uint32, "*u64": torch.uint64, "*fp16": torch.float16,
    "*bf16": torch.bfloat16, "*fp32": torch.float32, "*fp64": torch.float64,
}  # fmt: skip


def _tensor_at(address: int, type: str) -> torch.Tensor:
    """One element at an address: the interpreter takes tensors and looks at where they start. An empty tensor has
    address 0, and nothing is read there."""
    dtype = _DTYPES[type]
    if address == 0:
        return torch.zeros(1, dtype=dtype)
    return torch.frombuffer((ctypes.c_char * dtype.itemsize).from_address(address), dtype=dtype)
