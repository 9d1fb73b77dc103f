"""`%%compare`: the call at a cell's end through every way to capture a graph."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from explorer.records.check.trial import unnoticed
from explorer.records.methods.compare import chosen
from explorer.show.comparison import Compared, compare
from explorer.show.notebook.cell import plan
from explorer.show.notebook.instrument import look


@magics_class
class ComparingMagics(Magics):
    """`%%compare`"""

    shell: InteractiveShell

    @magic_arguments()
    @argument("--methods", nargs="+", metavar="NAME", help="some of the methods, in quotes; by default all")
    @argument("--backends", nargs="+", default=[], metavar="NAME", help="also torch.compile with these backends")
    @argument("--no-time", action="store_true", help="do not time the calls")
    @argument("-o", dest="out", metavar="VAR", help="store the comparison in a variable")
    @cell_magic
    def compare(self, line: str, cell: str) -> None:
        """Capture the call that a cell ends with in every way there is, and run what was captured on other inputs.

        The cell runs as it would without the magic, once. The call is then repeated on copies: by eager, TorchScript,
        symbolic tracing, export, ONNX, torch.compile, explorer and, where it is installed, TensorFlow. A table says of
        each other input whether the result is eager's, another, or refused.

        Examples
        --------
        ::

            %%compare
            y = gate(x)

            %%compare --methods torch.jit.trace torch.export --no-time -o compared
            model(x)
        """
        __tracebackhide__ = True
        given = parse_argstring(self.compare, line)
        methods = None if given.methods is None else [name.strip("'\"") for name in given.methods]
        try:
            count = len(chosen(methods, given.backends))
            body = ast.parse(self.shell.transform_cell(cell)).body
        except ValueError as error:
            raise UsageError(str(error)) from None
        except SyntaxError:
            self.shell.run_cell(cell)  # IPython shows what is wrong, as it does without the magic
            return
        last = body[-1] if body else ast.Pass()
        called = last.value if isinstance(last, (ast.Expr, ast.Assign)) else None
        if not isinstance(called, ast.Call) or ast.unparse(called.func).startswith("get_ipython()"):
            raise UsageError("%%compare takes a cell that ends with a call, such as y = f(x): define f above it")
        lines = cell.splitlines()
        if last.lineno > 1 and not self.shell.run_cell("\n".join(lines[: last.lineno - 1])).success:
            return
        seen = look(plan([last]), 0, self.shell.user_ns, "<compared>")
        if not self.shell.run_cell("\n".join(lines[last.lineno - 1 :])).success:
            return
        if seen.state is None:
            print(f"Nothing is compared, because the call cannot be repeated on copies: {seen.why_not}.")
            return
        state = seen.state
        with unnoticed(), state.in_place():
            fn, args, kwargs = _call(called, {**self.shell.user_ns, **state.args})
            name = ast.unparse(called)
            output = ComparisonOutput(name, count)
            run = compare(
                fn, methods=methods, backends=given.backends, time=not given.no_time, name=name, tell=output.tell
            )
            found = run(*args, **kwargs)
        if given.out is not None:
            self.shell.user_ns[given.out] = found
        output.finish(found)


class ComparisonOutput:
    """Says which method is at work, since some take long, and then shows the comparison in the same place."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._reported = 0
        self._handle = display(self._text("the call on other inputs"), raw=True, display_id=True)

    def tell(self, doing: str) -> None:
        self._reported += 1
        place = f" ({self._reported} of {self._count})" if self._reported <= self._count else ""
        self._handle.update(self._text(f"{doing}{place}"), raw=True)

    def finish(self, found: Compared) -> None:
        self._handle.update(found)

    def _text(self, doing: str) -> dict[str, str]:
        return {"text/plain": f"Comparing {self._name}: {doing} …"}


def _call(called: ast.Call, names: dict[str, object]) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The function, the arguments and the keyword arguments of a call, evaluated."""
    fn = eval(compile(ast.Expression(called.func), "<compared>", "eval"), names)
    given = ast.Call(ast.Name("collect", ast.Load()), called.args, called.keywords)
    made = ast.fix_missing_locations(ast.Expression(ast.copy_location(given, called)))
    args, kwargs = eval(compile(made, "<compared>", "eval"), {**names, "collect": _collected})
    return fn, args, kwargs


def _collected(*args: object, **kwargs: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs
