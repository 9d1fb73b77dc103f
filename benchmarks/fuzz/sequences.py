"""Functions called many times, where one thing changes at a time: the calls by which compilers count recompiles."""

from __future__ import annotations

from random import Random

from benchmarks.fuzz.grammar import ARGUMENTS, CALLED, CHANGES, Grower
from benchmarks.fuzz.program import Program, around, function, grow

WALKS: dict[str, tuple[tuple[str, ...], ...]] = {
    "T": (
        *(("t(2, 3)", "t(4, 3)", "t(6, 3)", "t(2, 3)", "t(7, 3)"),) * 3,
        *(("t(3)", "t(5)", "t(8)", "t(3)", "t(1)"),) * 2,
        ("t(2, 3)", "t(2, 3)", "t(2, 3)"), ("t(3, 3)", "t(4, 4)", "t(5, 5)", "t(4, 5)", "t(3, 3)"),
        ("t(2, 3)", "t(2, 4)", "t(2, 5)", "t(3, 5)", "t(2, 3)"), ("t(1, 3)", "t(2, 3)", "t(3, 3)", "t(1, 3)"),
        ("t(4, 3)", "t(1, 3)", "t(5, 3)", "t(0, 3)", "t(6, 3)"), ("t(0, 3)", "t(2, 3)", "t(3, 3)", "t(0, 3)"),
        ("t(2, 3)", "t(3)", "t(2, 2, 3)", "t(4, 3)", "t(5)"),
        ("t(2, 3)", "t(2, 3, dtype=torch.float64)", "t(2, 3, dtype=torch.int64)", "t(2, 3)"),
        ("t(2, 3)", "t(2, 3, grad=True)", "t(4, 3, grad=True)", "t(2, 3, grad=True) * 1", "t(5, 3)"),
        ("t(4, 3)", "t(3, 4).t()", "t(8, 3)[::2]", "t(5, 3)[1:]", "t(3).expand(4, 3)", "t(4, 3)"),
        ("t(4, 3)", "t(5, 3)", "t(3, 6).t()", "t(3, 7).t()", "t(8, 3)"),
        ("t(8, 3)[::2]", "t(10, 3)[::2]", "t(12, 3)[::2]", "t(9, 3)[::3]"),
        ("nn.Parameter(t(2, 3))", "nn.Parameter(t(4, 3))", "nn.Parameter(t(5, 3))", "t(2, 3)"),
        ("marked(t(2, 3), 0)", "marked(t(4, 3), 0)", "marked(t(6, 3), 0)", "t(5, 3)"),
        ("marked(t(3, 4), 1)", "t(3, 4)", "t(3, 5)", "marked(t(3, 6), 1)"),
        ("maybe_marked(t(2, 3), 0)", "maybe_marked(t(4, 3), 0)", "maybe_marked(t(1, 3), 0)", "t(6, 3)"),
        ("static(t(2, 3))", "static(t(4, 3))", "static(t(5, 3))", "t(6, 3)"),
        ("t(())", "t(1)", "t(())", "t(2)", "t(3)"), ("t(2, 3)", "GT", "t(4, 3)", "GT"),
        ("t(2, 3, 4)", "t(3, 3, 4)", "t(3, 2, 4)", "t(4, 5, 6)", "t(2, 3, 4)"),
    ),
    "I": (
        *(("2", "3", "4", "5", "2"),) * 4, ("2", "3", "1", "0", "5"), ("0", "1", "2", "3"), ("1", "2", "3", "1"),
        ("3", "-1", "-2", "4"), ("2", "True", "2", "2.5", "3"), ("2", "None", "2", "3"), ("3", "3", "3", "4"),
        ("2", "4", "8", "16"),
    ),
    "N": (
        *(("0.5", "2.5", "3.5", "0.5"),) * 2, ("2", "3", "5", "2"), ("0.5", "2", "True", "1.5"), ("0.0", "1.0", "2.0"),
        ("2.5", "float('inf')", "0.0", "-1.5"), ("2.0", "2.0", "2.0"),
    ),
    "B": (("True", "False", "True"), ("False", "None", "1", "True"), ("True", "True")),
    "S": (("'a'", "'b'", "'a'"), ("'w'", "''", "'a'"), ("'a'", "'a'")),
    "L": (
        ("[t(3)]", "[t(3), t(3)]", "[t(3), t(3), t(3)]", "[t(3)]"), ("[t(3), t(2, 3)]", "[t(3), t(4, 3)]",
         "[t(3), t(5, 3)]", "[t(2), t(2, 2)]"), ("[t(3)] * 2", "[t(3), t(3)]", "[t(5), t(5)]"), ("[]", "[t(3)]", "[]"),
        ("[t(2, 3)]", "(t(2, 3),)", "[GT]", "[t(3, 3)]"),
    ),
    "D": (
        ("{'a': t(3)}", "{'a': t(4)}", "{'a': t(5)}", "{'a': t(3)}"), ("{'a': t(3)}", "{'a': t(3), 'b': t(2, 3)}",
         "{'b': t(2, 3), 'a': t(3)}", "{}"), ("{'a': t(3), 'n': 2}", "{'a': t(3), 'n': 3}", "{'a': t(3), 'n': 4}"),
    ),
    "O": (
        ("Thing(t(3), 2)", "Thing(t(4), 2)", "Thing(t(5), 2)", "Thing(t(3), 2)"), ("Thing(t(3), 2)", "Thing(t(3), 3)",
         "Thing(t(3), 4)", "Thing(t(3), 0.5)"), ("Record(t(3), 2)", "Record(t(3), 3)", "Record(t(3), 5)"),
        ("Slotted(t(3), 2)", "Slotted(t(3), 3)", "Slotted(t(4), 4)"), ("Thing(t(3))", "Derived(t(3))", "Pair(t(3), 1)"),
    ),
    "M": (
        ("Net()", "Net()", "Net().eval()"), ("nn.Linear(3, 3)", "nn.Linear(3, 4)", "nn.Linear(3, 5)"),
        ("nn.Sequential(nn.Linear(3, 3), nn.ReLU())", "nn.Linear(3, 3)", "nn.ReLU()"), ("nn.BatchNorm1d(3)",) * 2,
    ),
    "K": (
        ("torch.sin", "torch.cos", "torch.sin"), ("maker(t(3))", "maker(t(3))", "maker(t(2, 3))"),
        ("functools.partial(torch.mul, t(3))", "functools.partial(torch.mul, t(3))", "torch.relu"),
        ("(lambda q: q + 1)", "(lambda q: q * 2)", "nn.Linear(3, 3)"),
    ),
    "G": (("iter([t(3), t(2, 3)])",) * 3, ("stream(t(2, 3))", "stream(t(3, 3))", "stream(t(4, 3))")),
    "A": (
        ("np.arange(3.)", "np.arange(4.)", "np.arange(5.)"), ("np.ones((2, 3))", "np.ones((2, 3))", "np.float32([1])"),
    ),
    "Z": (("t(3) * 1j", "t(4) * 1j", "(t(3) * 1j).conj()", "t(3) * 1j"),),
    "U": (("{1, 2, 3}", "{2}", "{1, 2, 3}"),),
    "J": (("[1, 2]", "[1, 3]", "[1, 4]", "[2, 5]"), ("[1]", "[1, 2]", "[1, 2, 3]"), ("[3, 2]", "(3, 2)", "[3, 2]")),
}  # fmt: skip
"""By kind of argument: values that follow each other."""

PLAIN = "R = f(<$args>)"

SIMPLE = (
    *("<T+> = <T> <+|-|*> <T>", "<T+> = <T!> * <N>", "<T+> = <T!> + <I>", "<T+> = <T>") * 3,
    "<T+> = <T!> * <N!>", "<T+> = <T!> + <I!>", "<T+> = <T!> * <I!> + <I!>", "<I+> = <I!> <+|-|*|//> <2|3>",
    "<I+> = <T!>.shape[<0|-1>]", "<T+> = <T!a>.view(<$a>.shape[0], -1)", "<T+> = <T!>.reshape(-1)",
    "<T+> = torch.zeros(<T!a>.shape[-1]) + <$a>", "<T+> = torch.arange(<T!>.shape[0])", "<T+> = <T!> + <T!>.shape[0]",
    "<T+> = torch.cat([<T!a>, <$a>])", "<T+> = torch.cat([<T!>, <T!>])", "<T+> = <T!> @ <T!>.mT", "<T+> = <T!>.sum(0)",
    "<T+> = <T!a>[:<$a>.shape[0] // 2]", "<T+> = <T!>[:<I!>]", "<T+> = torch.ones(<I!>, 3)",
    "<T+> = <T!>.expand(2, -1)", "<T+> = <T!> + len(<L!>)", "<T+> = sum(<L!>)", "<T+> = <L!>[0] + <T!>",
    "<T+> = <D!>['a'] * 2", "<T+> = <M!>(<T!>)", "<T+> = <T!> + len(<D!>)", "<T+> = <D!>.get('b', <T!>)",
    "<T+> = <O!>.w * <O!>.n", "<O!>.n += 1", "<T+> = <K!>(<T!>)", "<T+> = <O!>.go(<T!>)", "<T+> = <T!> + GI",
    "<T+> = <T!> * GT", "<T!>.add_(1)", "<T!>.mul_(<N>)", "<L!>.append(<T!>)", "<T+> = <T!> + sum(<J!>)",
    "<T+> = <T!> + <J!>[0]", "<T+> = <G!>.__next__() + 1", "<T+> = torch.as_tensor(<A!>) + 1",
    "torch._dynamo.graph_break()", "print(<I>)", "<T+> = bumped(<T!>.clone())", "<T+> = scaled(<T!>)",
    "<T+> = <T!>.t()", "<T+> = <T!>.chunk(2)[0]", "<T+> = torch.stack([<T!a>, <$a>])", "<T+> = F.pad(<T!>, (1, <I!>))",
    "state['k'] = <T!>", "<T+> = [<T!> * i for i in range(<I!>)][-1]", "<D!>['c'] = <T!>", "SEEN.append(<I!>)",
    "<N+> = <I!> / 2", "<T+> = Kept.apply(<T!>, <N!>)", "<T+> = <T!> + <T!>.sum().item()", "<N+> = <N!> * 2",
)  # fmt: skip
COMPOUND = (
    "for <I+a> in range(<I!>):\n    <T!> = <T!> + <$a>", "for <I+> in range(<I!>):\n    <block>",
    "for <T+> in <L!>:\n    <block>", "if <T!>.shape[0] > <1|2|3|4>:\n    <block>\nelse:\n    <block>",
    "if <I!> > <1|2|3>:\n    <block>", "if <B!>:\n    <block>\nelse:\n    <block>", "if <B>:\n    <block>",
    "if <T!>.shape == <T!>.shape:\n    <block>", "if <T!>.shape[0] == <T!>.shape[-1]:\n    <block>",
    "if <T!>.shape[0] % 2 == 0:\n    <block>", "if <T!>.requires_grad:\n    <block>", "if 'b' in <D!>:\n    <block>",
    "if <M!>.training:\n    <block>", "if <T!>.sum() > 0:\n    <block>", "with torch.no_grad():\n    <block>",
    "for <I+a> in range(<T!>.shape[0]):\n    <T!> = <T!> + <$a>",
    "<I+a> = 0\nwhile <$a> < <I!>:\n    <$a> += 1\n    <block>", "for <S+>, <T+> in <D!>.items():\n    <block>",
    "def <K+>(<T+a>, by=<N>):\n    return <$a> * by + <T!>", "if isinstance(<N!>, float):\n    <block>",
    "try:\n    <block>\nexcept <E>:\n    <block>", "for <T+> in <T!>:\n    <block>",
)  # fmt: skip
"""Statements about what changes between calls; half of the functions are made of them."""


def sequence(seed: str, index: int) -> Program:
    return grow(f"{seed} calls", index, _grown)


def _grown(random: Random, name: str) -> Program:
    grower = Grower(random, SIMPLE, COMPOUND) if random.random() < 0.5 else Grower(random)
    kinds = ["T"] + random.choices("TTTTIIINNBSLLDDOOMMKKGAUJ", k=random.randint(0, 2))
    names = [f"x{place}" for place in range(len(kinds))]
    absent = random.randrange(1, len(kinds)) if len(kinds) > 1 and random.random() < 0.1 else 0
    first = (f"if a{absent} is None:\n    return a0 + 1",) if absent else ()
    source = function(grower, kinds, random.randint(1, 4), first)
    outside = around(kinds, names)
    walks = [random.choice(WALKS[kind]) for kind in kinds]
    tied = random.random() < 0.3
    if tied:
        walks = [walks[kinds.index(kind)] for kind in kinds]
    at = [0] * len(kinds)
    values = [walk[0] for walk in walks]
    steps = []
    for number in range(random.randint(4, 7)):
        lines, given = [], list(names)
        moved = set(range(len(kinds)))
        if number:
            moved = moved if tied else {random.randrange(len(kinds))} if random.random() < 0.85 else set()
            for place in moved:
                at[place] += 1
                values[place] = walks[place][at[place] % len(walks[place])]
            if absent in moved and absent and random.random() < 0.5:
                values[absent] = "None"
            if not moved or random.random() < 0.25:
                lines.append(grower.fill(grower.chosen(CHANGES, outside), outside))
            same = [place for place, kind in enumerate(kinds) if kinds.count(kind) > 1]
            if same and random.random() < 0.15:
                place = random.choice(same)
                given[place] = random.choice([n for n, kind in zip(names, kinds, strict=True) if kind == kinds[place]])
        made = [f"{called} = {value}" for place, (called, value) in enumerate(zip(names, values, strict=True))
                if place in moved]  # fmt: skip
        how = PLAIN if random.random() < 0.8 else random.choice(CALLED)
        steps.append("\n".join([*made, *lines, grower.fill(how, outside, args=", ".join(given))]))
    return Program(name, source, tuple(steps), random.choice((None,) * 6 + (True, False)))


assert WALKS.keys() == ARGUMENTS.keys()
