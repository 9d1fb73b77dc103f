"""What the errors of capture methods mean, in words for those who meet them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """`pattern` is searched in "Type: message" of an error of a method whose name holds `method`."""

    method: str
    pattern: str
    text: str


MEANINGS = (
    Meaning(
        "torch.fx",
        r"symbolically traced variables cannot be used as inputs to control flow",
        "A branch or loop asks for a value. Proxies have none: symbolic tracing follows no branch. Use "
        "torch.where, or a method that reads bytecode or source.",
    ),
    Meaning(
        "torch.fx",
        r"(can't be|cannot be|not) (iterated|iterable)|Proxy object cannot be iterated",
        "A loop runs over a tensor or over arguments whose number is not known: a proxy does not know its length.",
    ),
    Meaning(
        "torch.fx",
        r"'len' is not supported",
        "A proxy does not know its length; sizes are not part of symbolic tracing.",
    ),
    Meaning(
        "torch.fx",
        r"Proxy",
        "Python asked the proxy for something that only a value has; symbolic tracing records tensor operations "
        "and no more.",
    ),
    Meaning(
        "torch.jit.script",
        r"NotSupportedError|UnsupportedNodeError|isn't supported|is not supported|aren't supported",
        "The source uses Python that is not in TorchScript's subset. Rewrite that part, or keep it outside the "
        "scripted function.",
    ),
    Meaning(
        "torch.jit.script",
        r"(Expected|Tried|Arguments for call are not valid|Return value was annotated|type)",
        "TorchScript is typed and takes an argument without annotation for a Tensor: annotate the types, or write "
        "it so that each variable keeps one type.",
    ),
    Meaning(
        "torch.jit.script",
        r"undefined value|python value of type|unknown builtin",
        "TorchScript cannot see this Python object: only tensors, plain values, modules and other scripted "
        "functions are known inside.",
    ),
    Meaning(
        "torch.jit.script",
        r"source",
        "TorchScript reads the source of the function, and there is none to read here.",
    ),
    Meaning(
        "torch.jit.trace",
        r"Tracer cannot infer type|Only tensors|type .* cannot be traced|Unsupported",
        "Tracing takes tensors, and tuples, lists and dicts of them, in and out; other arguments must be bound before.",
    ),
    Meaning(
        "torch.export",
        r"data-dependent|GuardOnDataDependent|Could not guard|unbacked",
        "A branch or a size depends on values in a tensor. Export needs one graph for all inputs: use torch.cond "
        "or torch.where, or torch._check to state what is known.",
    ),
    Meaning(
        "torch.export",
        r"Unsupported|graph break|not supported|Attempted to call|skipped",
        "Export takes the whole function in one graph: where torch.compile would go on in Python after a break, "
        "export refuses.",
    ),
    Meaning(
        "ONNX",
        r"data-dependent|GuardOnDataDependent|Could not guard",
        "The program is exported first, and a branch depends on values in a tensor: use torch.cond or torch.where.",
    ),
    Meaning(
        "ONNX",
        r"No decompositions|No ONNX function|ConversionError|DispatchError",
        "An ATen operation in the program has no ONNX counterpart known to the exporter: add one with "
        "custom_translation_table.",
    ),
    Meaning(
        "ONNX",
        r"export",
        "The program could not be exported, which comes before the translation to ONNX.",
    ),
    Meaning(
        "TensorFlow",
        r"no counterpart",
        "The graph holds an ATen operation that the translation to TensorFlow does not have.",
    ),
    Meaning(
        "TensorFlow",
        r"data-dependent|Could not guard|Unsupported",
        "The ATen graph that would be built in TensorFlow could not be captured.",
    ),
)


def meaning(method: str, said: str) -> str:
    """What an error of a method means; "" where nothing is known of it."""
    return next((m.text for m in MEANINGS if m.method in method and re.search(m.pattern, said)), "")
