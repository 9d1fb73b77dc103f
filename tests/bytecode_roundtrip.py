"""Decoding and encoding on whatever Python runs this.

`python bytecode_roundtrip.py [--all | --behavior]` needs no torch, and prints a summary.

Three checks: the corpus behaves the same, the standard library's code objects come back the same, and modules of the
standard library made of encoded code objects work.
"""

# ruff: noqa: E402
from __future__ import annotations

import contextlib
import dis
import importlib.abc
import importlib.machinery
import importlib.util
import io
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":  # without explorer/__init__.py, which imports torch
    package = types.ModuleType("explorer")
    package.__path__ = [str(HERE.parent / "explorer")]
    sys.modules["explorer"] = package

from bytecode_bodies import CHECKS
from explorer.compiler.bytecode.decode import decode, read_exceptions
from explorer.compiler.bytecode.encode import encode
from explorer.compiler.bytecode.flow import bound, handlers_by_position, liveness, reachable
from explorer.ir.bytecode import Code, Instruction

CORPUS = HERE / "bytecode_corpus.py"

# Syntax that 3.11 cannot parse.
CORPUS_312 = """
def type_parameters():
    type Pair[T] = tuple[T, T]
    class Box[T: int, *Ts, **P]:
        x: T
        def get[U](self, u: U) -> U:
            return u
    def first[T: (int, str)](x: T) -> T:
        return x
    return first(3), Box().get(4), str(Pair.__value__), [str(p) for p in Box.__type_params__]

def quoted_inside():
    d = {"k": 1}
    return f"{d["k"]} {f"{d["k"]:{d["k"]}}"}"

def comprehension_in_class():
    y = 2
    class A:
        n = 3
        out = [x + y for x in range(n)]
        pairs = [(x, lambda: x) for x in range(2)]
    return A.out, [f() for _, f in A.pairs]

CASES = [type_parameters, quoted_inside, comprehension_in_class]
"""


def rewritten(code: types.CodeType, through: Callable[[Code], Code] = lambda body: body) -> types.CodeType:
    """`code` decoded and encoded, and so the code objects among its constants; `through` may change each body."""
    body = decode(code)
    nested = tuple(
        replace(i, arg=rewritten(i.arg, through)) if i.op == "LOAD_CONST" and isinstance(i.arg, types.CodeType) else i
        for i in body.instructions
    )
    return encode(through(replace(body, instructions=nested)))


Case = Callable[[], Any]


def corpus(through: Callable[[Code], Code] = lambda body: body) -> list[tuple[str, Case, Case]]:
    """Name, the function as compiled, and the function decoded and encoded."""
    sources = [(CORPUS.read_text(), str(CORPUS))]
    if sys.version_info >= (3, 12):
        sources.append((CORPUS_312, "corpus312"))
    found = []
    for source, filename in sources:
        compiled = compile(source, filename, "exec")
        sides = []
        for side, code in (("compiled", compiled), ("encoded", rewritten(compiled, through))):
            module = types.ModuleType(f"corpus_{side}")
            sys.modules[module.__name__] = module
            exec(code, module.__dict__)
            sides.append(module.CASES)
        found += [(before.__name__, before, after) for before, after in zip(*sides, strict=True)]
    return found


def poisoned(body: Code) -> Code:
    """Before each instruction, something else in each local that is said to be dead there."""
    live, maybe = liveness(body), bound(body)
    captured = {*body.cells, *body.frees}
    out: list[Instruction] = []
    for i in body.instructions:
        dead = sorted(maybe[i.id][1] - live[i.id] - captured) if i.id in live else []
        if not dead or i.op == "YIELD_VALUE":  # which stays right behind its SEND
            out.append(i)
            continue
        out.append(Instruction("NOP", id=i.id, span=i.span))
        for n, name in enumerate(dead):
            out.append(Instruction("LOAD_CONST", "poison", id=f"{i.id}.{n}a", span=i.span))
            out.append(Instruction("STORE_FAST", name, id=f"{i.id}.{n}b", span=i.span))
        out.append(replace(i, id=f"{i.id}.itself"))
    ids = {i.id for i in out}
    handlers = (replace(h, end=end if (end := f"{h.end}.itself") in ids else h.end) for h in body.handlers)
    return replace(body, instructions=tuple(out), handlers=tuple(handlers))


SEES_LOCALS = {"locals_seen"}
"""Cases that show their locals, dead or not."""


def outcome(case: Case, traced: bool) -> dict[str, Any]:
    """What the case returns, prints and raises, with the source positions of each frame; and each line it runs."""
    events: list[tuple[str, str, int]] = []
    filename = case.__code__.co_filename

    def tracer(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != filename:
            return None
        events.append((event, frame.f_code.co_qualname, frame.f_lineno))
        return tracer

    seen: dict[str, Any] = {}
    printed = io.StringIO()
    previous = sys.gettrace()
    with contextlib.redirect_stdout(printed):
        if traced:
            sys.settrace(tracer)
        try:
            seen["result"] = repr(case()).replace("corpus_encoded", "corpus_compiled")
        except Exception as error:
            seen["error"] = type(error).__name__, str(error)
            seen["frames"] = list(_frames(error, filename))
        finally:
            sys.settrace(previous)
    return seen | {"printed": printed.getvalue(), "events": events}


def _frames(error: BaseException | None, filename: str) -> Iterator[tuple[Any, ...]]:
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename == filename:
                yield code.co_qualname, trace.tb_lineno, list(code.co_positions())[trace.tb_lasti // 2]
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


LIBRARY = (
    "ast argparse dataclasses inspect contextlib functools typing enum difflib traceback tokenize statistics "
    "_pydecimal subprocess logging/__init__ re/_parser json/decoder json/encoder asyncio/base_events asyncio/tasks "
    "asyncio/streams asyncio/taskgroups asyncio/timeouts asyncio/queues collections/__init__ concurrent/futures/thread "
    "locale"
)


def library(whole: bool = False) -> Iterator[Path]:
    """Source files of the standard library: those that use much of the language, or all."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = root.rglob("*.py") if whole else (root / f"{name}.py" for name in LIBRARY.split())
    yield from sorted(files)


def check_code(code: types.CodeType) -> int:
    """That decoding, encoding and decoding again gives the same, for `code` and all in it: how many these are."""
    first = decode(code)
    again = encode(first)
    for name in dir(code):
        if name.startswith("co_") and name not in _MAY_DIFFER and not callable(getattr(code, name)):
            assert getattr(code, name) == getattr(again, name), (code, name)
    assert code.co_consts[:1] == again.co_consts[:1] or not isinstance(code.co_consts[0], str), code
    expected, found = _comparable(first), _comparable(decode(again))
    assert len(expected) == len(found), code
    for one, other in zip(expected, found, strict=True):
        assert one[1:] == other[1:] and _same(one[0], other[0]), (code, one, other)
    assert _stack_needed(again) <= again.co_stacksize <= code.co_stacksize + 2, code
    return 1 + sum(check_code(const) for const in code.co_consts if isinstance(const, types.CodeType))


# Unreachable code is left out, constants and names are in order of use, and there is no one way to pack the tables.
_MAY_DIFFER = {
    "co_code", "_co_code_adaptive", "co_consts", "co_names", "co_stacksize", "co_linetable", "co_lnotab",
    "co_exceptiontable",
}  # fmt: skip


def _comparable(body: Code) -> list[tuple[Any, ...]]:
    """Argument, op, target, source and handler of each instruction that can run, with positions for ids."""
    reached = reachable(body)
    places: dict[str | None, int] = {}
    for i in body.instructions:
        if i.id in reached:
            places[i.id] = len(places)
    return [
        (i.arg, i.op, places.get(i.target), i.span, h and (places[h.target], h.depth, h.push_offset))
        for i, h in zip(body.instructions, handlers_by_position(body), strict=True)
        if i.id in reached
    ]


def _same(one: Any, other: Any) -> bool:
    """Equal as constants: 0, 0.0, -0.0 and False differ."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one is other or (type(one), repr(one)) == (type(other), repr(other))


def _stack_needed(code: types.CodeType) -> int:
    """The greatest depth by CPython's own stack effects: an independent count."""
    instructions = {i.offset: i for i in dis.get_instructions(code)}
    following = dict(zip(instructions, [*list(instructions)[1:], None], strict=True))
    entries = read_exceptions(code.co_exceptiontable)
    handlers = [(2 * e.start, 2 * e.end, 2 * e.target, e.depth + e.push_offset + 1) for e in entries]
    depths: dict[int, int] = {}
    work: list[tuple[int | None, int]] = [(0, 0)]
    while work:
        offset, depth = work.pop()
        if offset is None or offset in depths:
            continue
        depths[offset] = depth
        i = instructions[offset]
        work += [(target, entry) for start, end, target, entry in handlers if start <= offset < end]
        arg = i.arg if i.opcode >= dis.HAVE_ARGUMENT else None
        if i.opcode in dis.hasjrel:
            work.append((i.argval, depth + dis.stack_effect(i.opcode, arg, jump=True)))
        if i.opname not in _LEAVE:
            work.append((following[offset], depth + dis.stack_effect(i.opcode, arg, jump=False)))
    return max(depths.values())


_LEAVE = {
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT",
}  # fmt: skip


class Rewriting(importlib.abc.MetaPathFinder):
    """Imports the named modules, and those inside them, from encoded code objects."""

    def __init__(self, names: str) -> None:
        self.names = set(names.split())

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in self.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> types.CodeType:
        return rewritten(compile(self.get_data(self.path), self.path, "exec", dont_inherit=True))


BEHAVIOR = (
    "json ast argparse contextlib functools collections asyncio difflib inspect dataclasses textwrap tokenize "
    "statistics fractions _pydecimal string heapq copy pprint enum configparser csv html shlex graphlib queue selectors"
)


def check_behavior() -> None:
    """Imports modules anew from encoded code objects and uses them. Only for a process that does nothing else."""
    names = set(BEHAVIOR.split())
    for name in list(sys.modules):
        if name.partition(".")[0] in names:
            del sys.modules[name]
    sys.meta_path.insert(0, Rewriting(BEHAVIOR))
    import _pydecimal
    import argparse
    import ast
    import asyncio
    import collections
    import configparser
    import copy
    import dataclasses
    import difflib
    import enum
    import fractions
    import functools
    import graphlib
    import heapq
    import inspect
    import json
    import json.encoder
    import pprint
    import shlex
    import statistics
    import string
    import textwrap
    import tokenize

    assert isinstance(json.__spec__.loader, _Loader) and isinstance(asyncio.tasks.__spec__.loader, _Loader)
    data = {"a": [1, 2.5, None, True], "b": {"c": "é\n"}, "d": []}
    json.encoder.c_make_encoder = None  # so that the Python encoder runs
    text = json.dumps(data, indent=2, sort_keys=True)
    assert json.loads(text) == data, text
    try:
        json.loads('{"a": [1, }')
        raise AssertionError("not refused")
    except json.JSONDecodeError as error:
        assert (error.lineno, error.colno) == (1, 11), error
    source = CORPUS.read_text()
    tree = ast.parse(source)
    assert ast.dump(ast.parse(ast.unparse(tree))) == ast.dump(tree)
    parser = argparse.ArgumentParser(prog="p")
    parser.add_argument("-n", type=int, default=3, help="how many")
    parser.add_subparsers(dest="what").add_parser("go").add_argument("where", nargs="*")
    assert vars(parser.parse_args(["-n", "4", "go", "x", "y"])) == {"n": 4, "what": "go", "where": ["x", "y"]}
    assert "how many" in parser.format_help()

    @dataclasses.dataclass(frozen=True, order=True, slots=True)
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list)

    assert dataclasses.asdict(dataclasses.replace(Point(1), y=[2])) == {"x": 1, "y": [2]} and Point(1) < Point(2)
    assert str(inspect.signature(textwrap.wrap)) == "(text, width=70, **kwargs)"
    assert functools.reduce(functools.partial(max, key=abs), [1, -3, 2]) == -3
    assert [t.string for t in tokenize.generate_tokens(io.StringIO("a+ 1\n").readline)][:3] == ["a", "+", "1"]
    assert list(difflib.unified_diff("abc", "abd", lineterm=""))[-2:] == ["-c", "+d"]
    assert difflib.get_close_matches("appel", ["ape", "apple", "peach"]) == ["apple", "ape"]
    assert statistics.quantiles([1, 2, 3, 4], n=4) == [1.25, 2.5, 3.75] and fractions.Fraction(3, 6) * 2 == 1
    with _pydecimal.localcontext() as context:
        context.prec = 30
        assert str(_pydecimal.Decimal(2).sqrt()) == "1.41421356237309504880168872421"
    assert collections.Counter("abca").most_common(1) == [("a", 2)] and list(heapq.merge([1, 4], [2])) == [1, 2, 4]
    assert collections.namedtuple("N", "a b")(1, b=2)._replace(a=3) == (3, 2)
    color = enum.Enum("Color", "RED GREEN")
    assert [c.name for c in color] == ["RED", "GREEN"] and enum.IntFlag("F", "A B")(3).name in ("A|B", "B|A")
    assert list(graphlib.TopologicalSorter({1: {2}, 2: {3}}).static_order()) == [3, 2, 1]
    assert pprint.pformat(data, width=20).count("\n") > 2 and copy.deepcopy(data) == data
    assert shlex.split("a 'b c'") == ["a", "b c"] and string.Template("$x-${y}").substitute(x=1, y=2) == "1-2"
    config = configparser.ConfigParser()
    config.read_string("[s]\nk = ${v}\n")
    assert config["s"]["k"] == "${v}"

    async def main() -> list[Any]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        lock = asyncio.Lock()
        out: list[Any] = []

        async def produce() -> None:
            for n in range(3):
                await queue.put(n)

        async def consume() -> None:
            async with lock, asyncio.timeout(5):
                for _ in range(3):
                    out.append(await queue.get())

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            out.append("timeout")
        out.append(await asyncio.to_thread(sum, [1, 2]))
        out += await asyncio.gather(asyncio.sleep(0, "x"), asyncio.sleep(0, "y"))
        return out

    assert asyncio.run(main()) == [0, 1, 2, "timeout", 3, "x", "y"]


def main() -> None:
    check_behavior()  # first: C modules keep what they import from Python ones
    if "--behavior" in sys.argv:
        return
    cases = corpus()
    for name, before, after in cases:
        for traced in (False, True):
            expected, found = outcome(before, traced), outcome(after, traced)
            assert expected == found, f"{name} (traced: {traced}):\n{expected}\n{found}"
    for name, before, after in corpus(poisoned):
        assert name in SEES_LOCALS or outcome(before, traced=False) == outcome(after, traced=False), name
    for check in CHECKS:
        check()
    codes = sum(check_code(compile(path.read_bytes(), str(path), "exec")) for path in library("--all" in sys.argv))
    print(f"{sys.version_info[0]}.{sys.version_info[1]}: {len(cases)} cases, {codes} code objects, behavior")


if __name__ == "__main__":
    main()
