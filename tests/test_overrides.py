"""What stands in for calls of torch: tensor subclasses, objects with __torch_function__, modes. One graph, as eager."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import explorer
from explorer.core.recorder import TOTALS
from explorer.ir.capture import CompilerBug
from overriding import Named, Scaled, inside, without, written


class Renamed(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.sigmoid:
            return super().__torch_function__(torch.exp, types, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs or {})


class Plain(torch.Tensor):
    @property
    def double(self):
        return self * 2

    def plus(self, n):
        return self + n


class Off(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Unwrapping(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found.as_subclass(torch.Tensor) if isinstance(found, torch.Tensor) else found


class Wrapped(torch.nn.Parameter):
    pass


class Holder:
    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*[a.value if isinstance(a, Holder) else a for a in args], **(kwargs or {}))


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return torch.sub(*args) if func is torch.add else func(*args, **(kwargs or {}))


def under_mode(x):
    with Mode():
        return torch.add(x, 1)


PROGRAMS = {
    "function": lambda x: torch.sigmoid(x) + 1,
    "operators": lambda x: (1 - x) @ x + x[1:].sum() - (-x).abs().max(),
    "several": lambda x: torch.stack([x, x * 2]).unbind(),
    "sizes": lambda x: x.reshape(-1, 1).expand(x.shape[0], 2) * x.dim(),
    "functional": lambda x: torch.nn.functional.softmax(x, -1) + torch.nn.functional.relu(x),
    "in place": written,
    "of an input": lambda x: x.add_(1),
    "without": without,
    "mode": under_mode,
    "made": lambda x: (x.as_subclass(Plain).plus(2), Plain(x).double, x.as_subclass(torch.Tensor) + 1),
    "attributes": lambda x: (Named(x, "a").label, Named(x, "b") + 1, isinstance(Named(x, "c") * 2, Named)),
    "asked": lambda x: x + isinstance(x, Plain) + (type(x) is Off) + issubclass(type(x + 1), Plain),
    "object": lambda x: torch.add(x, Holder(x)) + torch.mul(Holder(x), 2) + (x + Holder(x)),
}

CLASSES = [torch.Tensor, Plain, Renamed, Off, Unwrapping]


def plain(value):
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    return type(value), value.requires_grad, value.detach().as_subclass(torch.Tensor).tolist()


@pytest.mark.parametrize("cls", [Plain, Renamed, Off], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager_in_one_graph(name, cls):
    found = []
    for call in (PROGRAMS[name], explorer.compile(PROGRAMS[name], fullgraph=True, backend="aot_eager")):
        x = torch.arange(1.0, 4.0).as_subclass(cls)
        found.append((plain(call(x)), plain(x)))
    assert found[0] == found[1]


@pytest.mark.parametrize("cls", [Plain, Renamed, Off, Wrapped], ids=lambda cls: cls.__name__)
def test_gradients_reach_the_subclass(cls):
    def f(x, y):
        return (torch.sigmoid(x) * y).sum()

    found = []
    for call in (f, explorer.compile(f, fullgraph=True)):
        data = torch.arange(1.0, 4.0)
        x = cls(data) if cls is Wrapped else data.as_subclass(cls).requires_grad_()
        call(x, torch.ones(3)).backward()
        found.append(plain(x.grad))
    assert found[0] == found[1]


RETURNING_THEIR_ARGUMENT = [
    (torch.Tensor.type_as, lambda x, y: (x, y)),
    (torch.Tensor.mul_, lambda x, y: (x, y)),
    (torch.Tensor.to, lambda x, y: (x, y)),
    (torch.add, lambda x, y: (x, y, x)),
    (torch.atleast_1d, lambda x, y: (x, y)),
    (torch.Tensor.expand_as, lambda x, y: (x, y)),
]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("function, given", RETURNING_THEIR_ARGUMENT)
def test_an_argument_that_a_function_returns_is_a_new_tensor_of_the_class_of_another(function, given, later):
    def program(x, y):
        args = given(x, y)
        if later:
            y + 1
        made = function(*args[:2], out=args[2]) if len(args) > 2 else function(*args)
        first = made if isinstance(made, torch.Tensor) else made[0]
        return first, x, first is x

    found = []
    for call in (program, explorer.compile(program, fullgraph=True)):
        x, y = torch.arange(3.0), torch.ones(3).as_subclass(Plain)
        first, again, same = call(x, y)
        found.append((plain(first), plain(again), same, first is x, first.data_ptr() == x.data_ptr(), plain(x)))
    assert found[0] == found[1]


def test_another_class_compiles_again():
    call = explorer.compile(lambda x: torch.sigmoid(x), fullgraph=True)
    for cls in (*CLASSES, *CLASSES):
        x = torch.arange(3.0).as_subclass(cls)
        assert plain(call(x)) == plain(torch.sigmoid(x))


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("cls", [torch.Tensor, Plain, Renamed, Off], ids=lambda cls: cls.__name__)
def test_a_tensor_of_a_class_that_is_made_to_require_gradients_is_a_leaf_that_gets_them(cls, used, mode):
    def function(x):
        y = (x * 2).as_subclass(cls).requires_grad_()
        return y, y * 2 if used else None

    found = []
    for call in (function, explorer.compile(function)):
        with mode():
            y, later = call(torch.ones(3))
        flags = y.requires_grad, y.is_leaf, type(y), later is not None and later.requires_grad
        (y.as_subclass(torch.Tensor) * 3).sum().backward()
        found.append((*flags, y.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("cls", [TwoTensor, Scaled], ids=lambda cls: cls.__name__)
def test_a_mode_is_not_asked_about_what_is_inside_of_a_wrapper_where_the_graph_breaks(cls):
    asked = []

    class Asked(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            asked.append(getattr(func, "__name__", func))
            return func(*args, **(kwargs or {}))

    def function(x, y):
        made = cls(x * 2, y) if cls is TwoTensor else cls(x * 2, 3)
        with Asked():
            print("a graph break")
            return made, made * 2

    x, found = torch.arange(3.0), []
    for call in (function, explorer.compile(function)):
        bugs = TOTALS[CompilerBug.TOTAL]
        asked.clear()
        found.append((inside(call(x, x + 1)), list(asked)))
        assert TOTALS[CompilerBug.TOTAL] == bugs
    assert found[0] == found[1]


class Unchanged(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.autograd.grad((q := x.as_subclass(Unchanged)).sum(), q),
        lambda x: torch.autograd.grad(((q := (x * 2).as_subclass(Unchanged)) * q).sum(), [q]),
        lambda x: ((q := (x * 2).as_subclass(Unchanged)).retain_grad(), (q * q).sum().backward(), q.grad)[2:],
    ],
)
def test_a_gradient_of_a_tensor_of_a_class_that_is_made_and_used(program):
    (expected,), (got,) = (each(torch.ones(3, requires_grad=True)) for each in (program, explorer.compile(program)))
    assert type(got) is type(expected) and plain(got) == plain(expected)


class Log(torch.overrides.TorchFunctionMode):
    """What it is told of, as eager tells it: the function and the classes of the arguments."""

    def __init__(self):
        super().__init__()
        self.told = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.told.append((getattr(func, "__qualname__", str(func)), *sorted(cls.__name__ for cls in types)))
        return func(*args, **(kwargs or {}))


def logged(expression):
    space = {"torch": torch, "F": torch.nn.functional, "Log": Log, "Plain": Plain}
    exec(f"def f(x):\n    with Log() as log:\n        y = {expression}\n    return log.told, y", space)
    return space["f"]


SEEN_BY_MODES = """
2 * x | 1 - x | 2 / x | x // 2 | x % 2 | 2 ** x | -x | x < 1 | x != 1 | x.bool() & x.bool() | x[0, 1] | list(x) | len(x)
x.shape | x.ndim | x.stride() | x.dtype | x.requires_grad | x.grad | x.T | x.nbytes | x.storage_offset() | x.sin()
torch.zeros(2) | torch.tensor([1, 2]) | torch.as_tensor(x) | torch.randn(2) | torch.where(x > 0, x, x) | x.split(1)
x.detach() | x.numpy() | x.requires_grad_(False) | x.add_(1) | F.dropout(x, 0.0) | F.softmax(x, -1)
x.as_subclass(torch.Tensor) | x.as_subclass(Plain) * 2 | torch.nn.Linear(3, 2)(x) | torch.func.vmap(torch.sin)(x)
torch.einsum("ij,kj->ik", x, x) | sum([x, x]) | max(x.sum(), x.mean()) | f"{x.dtype}" | x.untyped_storage().nbytes()
(x + 1).set_(x + 2) | (x + 1).set_(x.sum()) | (x * 1).is_set_to(x)
"""


@pytest.mark.parametrize("cls", [torch.Tensor, Plain], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("expression", filter(None, map(str.strip, SEEN_BY_MODES.replace("\n", "|").split("|"))))
def test_a_mode_is_reported_of_the_same_calls(expression, cls):
    found = []
    for compile in (lambda function: function, explorer.compile):
        torch.manual_seed(0)
        told, y = compile(logged(expression))((torch.arange(6.0).reshape(2, 3) + 1).as_subclass(cls))
        found.append((told, type(y), y))
    assert found[0][:2] == found[1][:2]
    if isinstance(y, torch.Tensor):
        torch.testing.assert_close(found[0][2], found[1][2])


@pytest.mark.parametrize("expression", ["x.data_", "x.scale", "x.data_ * x.scale", "x.shape", "x.missing"])
@pytest.mark.parametrize("made", [False, True])
def test_attributes_of_an_instance_are_not_reported_to_a_mode(expression, made):
    """Of a wrapper that the call is given, and of one that it makes: torch reports attributes of Tensor alone."""
    inner = logged(expression)
    function = (lambda x: inner(Scaled(x.data_ * 2, 3))) if made else inner
    found = []
    for compile in (lambda function: function, explorer.compile):
        try:
            told, y = compile(function)(Scaled(torch.arange(3.0), 2))
            found.append((told, type(y), inside(y)))
        except AttributeError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("expression", ["x.data_", "x.scale", "x.data_ * x.scale"])
def test_an_attribute_of_an_instance_read_under_a_mode_is_no_error_of_the_compiler(expression):
    record = explorer.explore(lambda x: logged(expression)(Scaled(x, 3))[1], time=False)(torch.arange(3.0))
    assert record.data.errors == ()


class Adding(torch.overrides.TorchFunctionMode):
    """Adds for every product, however it is written, and says that every tensor has seven rows."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func == torch.Tensor.shape.__get__:
            return (7,)
        return (torch.add if func in (torch.mul, torch.Tensor.mul) else func)(*args, **(kwargs or {}))


def test_a_mode_without_side_effects_is_part_of_the_graph():
    def f(x):
        with Adding():
            return x * 3, 3 * x, x.mul(3), torch.mul(x, 3), x - x.shape[0]

    x = torch.arange(1.0, 4.0)
    torch.testing.assert_close(explorer.compile(f, fullgraph=True)(x), f(x))


class Watched(torch.Tensor):
    told = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.told.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


OPERATORS = "add radd iadd sub isub rsub mul rmul truediv rtruediv floordiv mod pow rpow lt le gt ge ne neg abs".split()


def test_methods_tell_a_class_of_the_function_that_eager_names():
    """`x.__add__(1)` is told as add, `x.nelement()` as numel, and new_zeros() gives the class like any other method."""
    unlike = {"backward", "apply_", "map_", "set_", "resize", "resize_", "share_memory_", "storage_type"}
    names = [name for name in dir(torch.Tensor) if name[0] != "_" and name not in unlike][::6]
    names += ["new_zeros", "new_empty", "new_tensor", "nelement", "ndimension", "stride", "unflatten", "as_subclass"]
    given = [(), (0,), (2.0,), (0, 0), ((2, 2),), (0, (2, 2)), (torch.float64,), (0, torch.tensor([1]))]
    tried = 0
    for name in [*names, *(f"__{each}__" for each in OPERATORS)]:
        for arguments in given if callable(getattr(torch.Tensor, name)) else []:

            def f(x, name=name, arguments=arguments):
                return getattr(x, name)(*arguments)

            try:
                found = told(f)
            except Exception:
                continue
            assert told(explorer.compile(f)) == found, (name, arguments)
            tried += 1
            break
    assert tried > 60


def told(f):
    x = torch.arange(1.0, 5.0).as_subclass(Watched)
    Watched.told.clear()
    torch.manual_seed(0)
    y = f(x)
    return [type(each) for each in (y if isinstance(y, tuple) else [y])], list(Watched.told)


def test_the_text_of_a_graph_names_methods_in_python():
    def f(x):
        return x**2, x.as_subclass(Watched) ** 2, 2 // x.as_subclass(Watched)

    texts = []

    def backend(graph, inputs):
        texts.append(graph.code)
        return torch.fx.GraphModule(graph, graph.graph)

    torch.testing.assert_close(explorer.compile(f, backend=backend)(torch.arange(1.0, 5.0)), f(torch.arange(1.0, 5.0)))
    assert texts and "torch._tensor" not in texts[0]


@pytest.mark.parametrize("inside", ["given", "made", "computed"])
@pytest.mark.parametrize("wanted", [torch.Tensor, TwoTensor, Scaled, Plain, Renamed, torch.nn.Parameter])
@pytest.mark.parametrize("name", ["two", "scaled", "plain", "tensor"])
def test_as_another_class(name, wanted, inside):
    """A wrapper's class makes the new tensor itself, of its own class, which eager refuses to call another one."""

    def make():
        x = torch.ones(3)
        return {"two": TwoTensor(x, x), "scaled": Scaled(x, 3), "plain": x.as_subclass(Plain), "tensor": x}[name]

    def call(x):
        x = make() if inside == "made" else x * 2 if inside == "computed" else x
        try:
            made = x.as_subclass(wanted)
        except RuntimeError as error:
            return str(error)
        return type(made).__name__, made is x, made.requires_grad

    assert explorer.compile(call)(make()) == call(make())


MOVES = {
    "t_": lambda x, y: y.t_(),
    "unsqueeze_": lambda x, y: y.unsqueeze_(0),
    "out": lambda x, y: torch.sin(x, out=y),
    "twice": lambda x, y: torch.mul(torch.add(x, x, out=y), 2, out=y),
    "data": lambda x, y: setattr(y, "data", x),
    "set_": lambda x, y: y.set_(x),
    "resize_": lambda x, y: y.resize_(2, 2).zero_(),
    "no move": lambda x, y: y.add_(1),
}


@pytest.mark.parametrize("cls", [torch.Tensor, Plain, Renamed, torch.nn.Parameter], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", MOVES)
def test_a_tensor_of_any_class_gets_other_axes_and_memory(name, cls):
    """The graph takes a plain tensor over the memory of another class's."""

    def call(x, y):
        MOVES[name](x, y)
        return y.shape, x + 1

    for make in (torch.ones(3), torch.empty(0), torch.zeros(2, 3), torch.zeros(6, 6)[::2]):
        found = []
        for run in (call, explorer.compile(call)):
            given = make.clone() if make.is_contiguous() else torch.zeros(6, 6)[::2]
            y = cls(given, requires_grad=False) if cls is torch.nn.Parameter else given.as_subclass(cls)
            try:
                told = plain([run(torch.ones(2, 3), y), y.shape, y.stride()])
            except RuntimeError as error:
                told = str(error)
            found.append((told, plain(y)))
        assert found[0] == found[1]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("name", ["cat", "stack", "vstack", "meshgrid", "einsum"])
def test_a_class_is_asked_where_its_tensor_lies_in_a_container_of_the_caller(name, kind):
    function = getattr(torch, name)
    named = ("i,i->i",) if name == "einsum" else ()

    def program(parts):
        return function(*parts) if name == "meshgrid" else function(*named, parts)

    def starred(function, args):
        return function(*args)

    plain, other = torch.ones(3), torch.ones(3).as_subclass(Plain)
    for parts in (kind([plain, other]), kind([other, plain]), kind([other, other])):
        for call, args in ((program, (parts,)), (starred, (function, (*named, parts)))):
            eager, ours = (run(*args) for run in (call, explorer.compile(call)))
            pairs = [(eager, ours)] if isinstance(eager, torch.Tensor) else list(zip(eager, ours, strict=True))
            assert all(type(a) is type(b) and torch.equal(a, b) for a, b in pairs)
