"""What Python's and NumPy's functions say to arguments that they refuse, and the rarer arguments that they take."""

from __future__ import annotations

import collections
import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import explorer
from explorer.core.recorder import TOTALS
from explorer.ir.capture import CompilerBug

CALLS: dict[str, Callable[[], Any]] = {
    "join of no iterable": lambda: "x".join(1),  # type: ignore[arg-type]
    "join of a wrong item": lambda: "x".join(["a", 1]),  # type: ignore[list-item]
    "join of bytes": lambda: b"x".join(None),  # type: ignore[arg-type]
    "text with an encoding": lambda: str(b"abc", "utf8") + str(b"d", encoding="ascii"),
    "bytes with an encoding": lambda: bytes("é", encoding="utf8"),
    "text of a number with an encoding": lambda: str(1, 2),  # type: ignore[call-overload]
    "defaultdict of a number": lambda: collections.defaultdict(5),  # type: ignore[call-overload]
    "length of a scalar": lambda: len(np.float32(2.0)),  # type: ignore[arg-type]
    "items of a scalar": lambda: list(np.float32(2.0)),  # type: ignore[call-overload]
    "items of a sum": lambda: list(np.ones(3).sum()),
    "length of an array without dimensions": lambda: len(np.ones(3).reshape(3)[:1].reshape(())),
    "pop from a deque": lambda: collections.deque().pop(),
    "popitem of an OrderedDict": lambda: collections.OrderedDict().popitem(),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_is_pythons(name: str) -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            found = CALLS[name]()
        except (TypeError, LookupError) as error:
            found = type(error), str(error)
        return x + 1, found

    assert explorer.compile(program)(torch.ones(2))[1] == program(torch.ones(2))[1]


def test_an_array_whose_tensor_is_given_other_memory() -> None:
    """It keeps the memory that it had."""

    def program(x: torch.Tensor) -> Any:
        made = torch.zeros(3)
        array = made.numpy()
        again = torch.from_numpy(array)
        made.set_(x)  # type: ignore[call-overload]
        again.fill_(4)
        return array, made

    found, made = explorer.compile(program)(torch.ones(3))
    assert (found.tolist(), made.tolist()) == ([4.0] * 3, [1.0] * 3)


CONTAINERS = {
    "tuple": (1, 2, 3), "list": [1, 2], "str": "abc", "dict": {"a": 1}, "set": {1}, "frozenset": frozenset({1}),
    "int": 3, "range": range(3), "torch.Size": torch.Size([1, 2]), "OrderedDict": collections.OrderedDict(a=1),
    "deque": collections.deque([1, 2]), "namedtuple": collections.namedtuple("Pair", "a b")(1, 2),  # noqa: PYI024
    "Tensor": torch.ones(3), "class": int,
}  # fmt: skip
KEYS = '0 "a" slice(None,None,2) slice(0,1) None 1.5 (0,1) ... True x [0] -5 10 10**20 -10**20'.split()


@pytest.mark.parametrize("container", CONTAINERS)
def test_items(container: str) -> None:
    lines = ["def fn(v, x):", " seen = [str(x * 2)]"]
    for statement, key in itertools.product(("seen.append(v[{}])", "v[{}] = 5", "del v[{}]"), KEYS):
        lines += [" try:", f"  {statement.format(key)}", " except Exception as error:"]
        lines += [f"  seen.append(({statement.format(key)!r}, type(error), str(error), str(v)))"]
    space: dict[str, Any] = {}
    exec("\n".join([*lines, " return str(seen)"]), space)
    given = CONTAINERS[container], torch.tensor(1)
    assert explorer.compile(space["fn"])(*copy.deepcopy(given)) == space["fn"](*copy.deepcopy(given))


HUGE = """list(range(n)); len(range(n)); next(iter(range(n))); next(reversed(range(n))); tuple(range(n - 2, n)); [1] * n
[a for a, _ in zip(range(n), "ab")]; dict(zip(range(n), "ab")); list(itertools.islice(range(n), 3)); list("ab").pop(n)
(1,) * n; "a" * n; x.shape * n; [0].insert(n, 2); [0].index(1, -n); itertools.repeat(1, n); collections.deque("ab", n)
collections.deque("ab").rotate(n); [].pop(n); collections.deque("ab").insert(n, 1); list(enumerate("ab", n)); [1] * -n
collections.deque("ab", -1); collections.deque("ab", 1.5); (1,) * (n // 10**9);[1, 2][:n]; x.shape[n]; n in range(n)
"""


@pytest.mark.parametrize("expression", HUGE.replace("\n", ";").strip("; ").split(";"))
def test_a_number_that_c_does_not_take(expression: str) -> None:
    """What iterates a range that is longer than len() tells is the program's; so is the error of a number beyond C."""
    bugs = TOTALS[CompilerBug.TOTAL]
    source = (
        f"def fn(x, n):\n y = x + 1\n try: return y, {expression.strip()}\n except Exception as error: return error"
    )
    exec(source, space := {"itertools": itertools, "collections": collections})
    one, other = (str(fn(torch.ones(2), 10**20)) for fn in (space["fn"], explorer.compile(space["fn"])))
    assert (one, bugs) == (other, TOTALS[CompilerBug.TOTAL])
