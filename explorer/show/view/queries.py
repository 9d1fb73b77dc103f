"""Queries over what a record holds in an order: terms that all hold, and moves from hit to hit in both directions."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar, Generic, TypeVar

from explorer.core.files import visible
from explorer.ir.record import CompileData

TERM = re.compile(r'(\w+)([:=<>])("[^"]*"|\S*)|(\S+)')

WAYS = {
    "steps": "explorer.explore and %%explore record them; a watched program and imported logs have none",
    "values": "explorer.explore(..., values=True) and %%explore --values record them",
    "rewrites": "explorer.explore and %%explore record them for our own passes; stock's are not recorded",
    "tries": "explorer.explore and %%explore record what fusion tries; stock's is not recorded",
}
"""What a record is gone through by, each a property of it, and where that comes from."""

PRINTED = 100
"""Entries that are printed."""

T = TypeVar("T")
H = TypeVar("H")


class Queried(Sequence[T], Generic[T, H]):
    """A sequence in which queries find entries. `KEY:TEXT` finds a part of a text, and without TEXT anything;
    `KEY=TEXT` the whole text; a text may be several, `one|other`, of which any will do; a number may be compared by `<`
    and `>`. A word alone is looked for in the first of `keys`.

    H is what is known at each entry beside its number, such as the state of an evaluator."""

    compile: CompileData
    keys: ClassVar[tuple[str, ...]]
    numbers: ClassVar[tuple[str, ...]]
    called: ClassVar[str]
    """What an entry is, in the singular."""
    example: ClassVar[str]
    """Of a query."""
    letters: ClassVar[Mapping[str, tuple[str, str]]]
    """Letters of moves: where each goes, and what a person calls that."""

    def states(self) -> Iterator[tuple[int, H]]:
        raise NotImplementedError

    def states_for(self, keys: Set[str]) -> Iterator[tuple[int, H]]:
        """The states as far as the facts of these keys need them."""
        return self.states()

    def number(self, key: str, at: int) -> float | None:
        """The number of an entry that `key` names."""
        raise NotImplementedError

    def facts(self, key: str, at: int, held: H) -> Sequence[str]:
        """The texts of an entry that `key` names."""
        raise NotImplementedError

    def title(self) -> str:
        """What it is of: a compile, such as "f0", or a half of one, "f0 backward"."""
        raise NotImplementedError

    def summary(self) -> str:
        """All of it in one line."""
        raise NotImplementedError

    def whole(self) -> str:
        return "\n".join([self.summary(), *map(self.line, range(len(self)))])

    def line(self, at: int) -> str:
        """An entry in one line."""
        raise NotImplementedError

    def text(self, at: int) -> str:
        """An entry in full."""
        raise NotImplementedError

    def __repr__(self) -> str:
        lines = [self.summary(), *map(self.line, range(min(len(self), PRINTED)))]
        if (more := len(self) - PRINTED) > 0:
            lines.append(f"... and {more} more; text(N) shows one, find(QUERY) says which")
        return visible("\n".join(lines))

    def move(self, at: int, to: str, back: bool = False) -> int | None:
        """The entry that a move leads to from entry `at`, None where there is none: `to` is the name of an entry, for
        the next one, or a query.

        Raises ValueError for what is no query."""
        if to == self.called:
            return found if 0 <= (found := at - 1 if back else at + 1) < len(self) else None
        hits = self.find(to)
        place = bisect_left(hits, at) - 1 if back else bisect_right(hits, at)
        return hits[place] if 0 <= place < len(hits) else None

    def find(self, query: str) -> list[int]:
        """The entries at which all terms of a query hold. Raises ValueError for what is no query."""
        found = list(TERM.finditer(query))
        terms = [self._term(*match.groups()) for match in found]
        if not terms:
            known = ", ".join(self.keys)
            raise ValueError(f"an empty query; expected terms such as  {self.example}  with one of {known}")
        states = self.states_for({match[1] or self.keys[0] for match in found})
        return [at for at, state in states if all(holds(at, state) for holds in terms)]

    def _term(self, key: str | None, relation: str, text: str, word: str | None) -> Callable[[int, H], bool]:
        key, relation, text = (key, relation, text.strip('"')) if word is None else (self.keys[0], ":", word)
        if key not in self.keys:
            raise ValueError(f"no {self.called} has {key!r}; expected one of {', '.join(self.keys)}")
        if key in self.numbers and text or relation in "<>":
            try:
                wanted = float(text)
            except ValueError:
                raise ValueError(f"{key}{relation}{text}: expected a number") from None
            if key not in self.numbers:
                raise ValueError(f"{key} is not a number; < and > take one of {', '.join(self.numbers)}")
            compare: Any = {"<": float.__lt__, ">": float.__gt__}.get(relation, float.__eq__)
            return lambda at, held: (number := self.number(key, at)) is not None and compare(float(number), wanted)
        several = text.lower().split("|")
        parts = several if all(several) else [text.lower()]
        if relation == "=":
            return lambda at, held: any(fact.lower() in parts for fact in self.facts(key, at, held))
        return lambda at, held: any(part in fact.lower() for fact in self.facts(key, at, held) for part in parts)


class Entries(Queried[T, None]):
    """Entries that stand by themselves: `rows` holds them."""

    rows: Sequence[T]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return self.rows[at]

    def states(self) -> Iterator[tuple[int, None]]:
        return ((at, None) for at in range(len(self)))
