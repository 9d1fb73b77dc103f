"""What of a cell is explored, and the function that is made of it."""

import ast

import pytest

from explorer.show.notebook.cell import function, names, parameters, plan


def planned(source: str):
    return plan(ast.parse(source).body)


def made(source: str, before: dict, after: dict | None = None, start: int | None = None):
    """The function of a cell that runs in `before`, and its parameters."""
    found = planned(source)
    at = found.starts[0] if start is None else start
    taken = parameters(found, at, before)
    return function(found, at, taken, {**before, **(after or {})}, "<test>"), taken


@pytest.mark.parametrize(
    ("source", "read", "bound"),
    [
        ("y = f(x)", ["f", "x"], ["y"]),
        ("x += 1", ["x"], ["x"]),
        ("a.b[c] = d", ["d", "a", "c"], []),
        ("[i * k for i in xs]", ["xs", "k"], []),
        ("g = lambda a: a + b", ["b"], ["g"]),
        ("(y := x) + y", ["x", "y"], ["y"]),
        ("for i in xs:\n  t = t + i", ["xs", "t", "i"], ["i", "t"]),
        ("with m as v:\n  w = v", ["m", "v"], ["v", "w"]),
        ("def f(a, b=c):\n  global g\n  g = a\n  return h", ["c", "g", "h"], ["f"]),
    ],
)
def test_names_are_those_of_pythons_scopes(source, read, bound):
    found = names(ast.parse(source).body)
    assert sorted(found.read) == sorted(read)
    assert sorted(found.bound) == sorted(bound)


def test_the_last_statement_is_explored():
    found = planned("a = 1\nb = a + 1\nc = b * 2")
    assert (found.starts, found.end, found.title) == ((2,), 3, "c = b * 2")


def test_a_bare_name_stands_for_what_assigned_it():
    found = planned("y = f(x)\nz = 1\ny")
    assert (found.starts, found.end) == ((0,), 1)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "empty"),
        ("y", "no statement in it computes"),
        ("def f(x):\n  return x", "definition of `f`"),
        ("class Net: pass", "definition of `Net`"),
        ("x = 1\nimport torch", "an import"),
        ("'text'", "constant"),
        ("pass", "pass"),
        ("del x", "del"),
        ("get_ipython().system('ls')", "magic or a shell command"),
        ("y = await f(x)", "uses await"),
        ("async for x in y:\n  pass", "uses await"),
    ],
)
def test_what_there_is_nothing_to_explore_in_is_reported(source, said):
    found = planned(source)
    assert said in found.why_not
    assert not found.starts


def test_backward_takes_what_leads_to_it_and_leaves_what_follows():
    source = "opt.zero_grad()\nh = model(x)\nprint(h)\nloss = f(h)\nloss.backward()\nopt.step()\nloss.item()"
    found = planned(source)
    assert found.starts == (1, 3)
    assert found.end == 5
    assert ast.unparse(found.backward) == "loss"
    assert "loss.backward()" in found.note


def test_backward_of_an_expression_may_be_all():
    found = planned("f(x).sum().backward()")
    assert found.starts == (0,)
    assert ast.unparse(found.backward) == "f(x).sum()"


def test_backward_of_a_name_that_the_cell_does_not_bind():
    found = planned("x = 1\nloss.backward()")
    assert found.earlier == "loss"
    assert found.backward is None


def test_a_value_after_backward_is_explored_instead():
    found = planned("loss = f(x)\nloss.backward()\ny = g(x)")
    assert (found.starts, found.end, found.backward) == ((2,), 3, None)


def test_data_are_parameters_and_code_stays_global():
    call, taken = made("y = max(f(x, n), abs(x))", {"f": len, "x": [1], "n": 2, "g": 3})
    assert taken == ("x", "n")
    assert call.__globals__["f"] is len


def test_a_name_that_is_assigned_anew_is_a_parameter():
    call, taken = made("f = f(x)", {"f": abs, "x": -3}, {"f": 3})
    assert taken == ("f", "x")
    assert call(abs, -3) == 3


@pytest.mark.parametrize(
    ("source", "before", "after", "result"),
    [
        ("x + 1", {"x": 2}, {}, 3),
        ("y = x + 1", {"x": 2}, {"y": 3}, 3),
        ("a, b = x, x + 1", {"x": 2}, {"a": 2, "b": 3}, (2, 3)),
        ("a = b = x", {"x": 2}, {"a": 2, "b": 2}, (2, 2)),
        ("x += 1", {"x": 2}, {"x": 3}, 3),
        ("d['k'] = x + 1", {"d": {}, "x": 2}, {}, 3),
        ("d['k'], e = x, 1", {"d": {}, "x": 2}, {"e": 1}, (2, 1)),
        ("for i in range(3):\n  x = x + i", {"x": 1}, {"x": 4, "i": 2}, (2, 4)),
        ("for i in []:\n  t = i", {}, {}, ()),
        ("if x > 1:\n  y = x\nelse:\n  z = x", {"x": 2}, {"y": 2}, 2),
        ("result_ = {}\nresult_['a'] = x", {"x": 2}, {"result_": {}}, 2),
        ("y = [x * i for i in range(k)]", {"x": 2, "k": 3}, {"y": []}, [0, 2, 4]),
        ("(y := x + 1) * 2", {"x": 2}, {"y": 3}, 6),
        ("with c as v:\n  y = v + 1", {"c": __import__("contextlib").nullcontext(4)}, {"v": 4, "y": 5}, (4, 5)),
    ],
)
def test_the_function_returns_what_the_statement_gives(source, before, after, result):
    found = planned(source)
    state = dict(before)
    if found.starts[0]:
        exec(compile(ast.Module(list(found.body[: found.starts[0]]), []), "", "exec"), state)
        state.pop("__builtins__")
    call, taken = made(source, state, after)
    assert call(*(state[name] for name in taken)) == result


def test_a_value_that_a_loop_may_leave_alone_is_carried():
    call, taken = made("for i in xs:\n  best = i", {"xs": [], "best": 7}, {"best": 7})
    assert taken == ("xs", "best")
    assert call([], 7) == 7


def test_lines_are_those_of_the_cell():
    call, _ = made("x = 1\n\n\ny = x", {"x": 1}, {"y": 1})
    assert call.__code__.co_firstlineno == 4


def test_what_cannot_be_in_a_function_is_refused():
    found = planned("from os import *\nloss = f(x)\nloss.backward()")
    assert found.starts == (1,)
    with pytest.raises(SyntaxError):
        made("with f:\n  from os import *", {"f": 1})
