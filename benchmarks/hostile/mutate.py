"""Changes to JSON, to the lines of a log, and to bytes, drawn from a seed, so that a finding can be made again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

MARKUP = "</pre></script><script>window.ran=1</script><img src=x onerror=\"window.ran=1\"><svg onload='window.ran=1'>"
TEXTS = (
    "", " ", "\0", "a\0b", "\n", "a\r\nb", "\x1b[2J\x1b]0;owned\x07", "\u202eabc", "\u2028", "\ud7ff\ue000",
    "\U0001f468", "x" * 100_000, " " * 50_000, "(" * 5000, "'" * 300, "# " * 999, "9" * 400, "a.b" * 3000, "0/0: " * 50,
    "\u00b2", "\u0663", "-1", "1e999", "NaN", "__proto__", "constructor", "toString", "../../etc/passwd", "/dev/zero",
    "|", "f0|x", "f0", "f0/0", "synthetic:", "%s{0}${x}`", "javascript:window.ran=1", "[[[", "L['x']", ":1",
    "a.py:99999999999", MARKUP, "\ufeff", "a" + "\u0300" * 3000, "\u200f\u061c", "\u0085\x0b",
    "\ufdfa" * 999, "tensor " * 500, "f0@-1", "L" + "[0]" * 3000, "x" * 1_000_000, "\n" * 100_000,
)  # fmt: skip
HALVES = ("\ud800", "a\udfffb", "\udc80")
"""Halves of characters: no record may hold them."""
NUMBERS = (
    0, -1, 1, 2, 99, 100, 65_536, 2**31 - 1, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64, 10**30, 10**400,
    0.5, -0.0, 5e-324, 1e-300, 1e300, 1.7e308, -1.7e308,
)  # fmt: skip
EDGES = (0, -1, 1, 2, 7, 99, 100, 10_000, 10**9, 2**31 - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63))
"""Whole numbers that most fields accept."""
OTHERS = ("null", "true", "false", "[]", "{}", "[[]]", '{"": {}}', json.dumps([None] * 50), '"x"', "1", "-1.5")
"""As JSON, so that each is made anew."""
MOST_COPIES = 400
MOST_BYTES = 2_000_000
MOST_PLACES = 100_000
DEPTHS = (90, 400, 3000, 100_000)
TWICE, DEEP = "@twice@", "@deep@"
"""Marks in a tree for what Python's objects cannot hold: a key that is there twice, and lists in lists."""

Place = tuple[Any, Any]
"""A container, and an index or key in it."""


def places(value: Any) -> list[Place]:
    """The places in a tree, MOST_PLACES of them."""
    found: list[Place] = []
    stack = [value]
    while stack and len(found) < MOST_PLACES:
        of = stack.pop()
        items = of.items() if isinstance(of, dict) else enumerate(of) if isinstance(of, list) else ()
        for key, inner in items:
            found.append((of, key))
            if isinstance(inner, (dict, list)):
                stack.append(inner)
    return found


def mutated(base: bytes, random: Random) -> bytes:
    """The JSON with some changes in it; now and then with changes to its bytes as well. Half of them keep the form, so
    that what shows a record is reached."""
    tree = json.loads(base)
    found = places(tree)
    formal = random.random() < 0.5
    for _ in range(random.choice((1, 1, 2, 3, 8, 40))):
        keep_form(found, random) if formal else change(found, random)
    made = written(tree, random)
    return damaged(made, random) if not formal and random.random() < 0.1 else made


def written(tree: Any, random: Random) -> bytes:
    """The JSON of a tree, its marks replaced."""
    made = json.dumps(tree).replace(f'"{TWICE}', '"')
    inner, n = random.choice((("[", "]"), ('{"a":', "}"), ('[{"op":"+","arguments":', "}]"))), random.choice(DEPTHS)
    return made.replace(f'"{DEEP}"', inner[0] * n + "[]" + inner[1] * n).encode()


def keep_form(found: list[Place], random: Random) -> None:
    """One change after which each field is still of its type: names that refer elsewhere, indices and sizes at their
    limits, positions out of order, the same thing many times."""
    if not found:
        return
    name = random.choice(sorted({each for _, each in found if isinstance(each, str)}))
    of, key = random.choice([place for place in found if place[1] == name])
    value = of.get(key)
    if isinstance(value, list) and value and random.random() < 0.5:  # something in it
        of, key = value, random.randrange(len(value))
        value = of[key]
    match value:
        case bool():
            of[key] = not value
        case int():
            of[key] = random.choice((*EDGES, *range(8), value + 1, value - 1, -value, -value - 1))
        case float():
            of[key] = random.choice((0.0, -1.0, 1e-300, 1.7e308, 5e-324, -value))
        case str() if random.random() < 0.7:  # refers to another, or to itself
            wanted = "id" if random.random() < 0.7 else name
            others = [container[at] for container, at in found if at == wanted and at in container]
            own = [of["id"]] if isinstance(of, dict) and isinstance(of.get("id"), str) else []
            of[key] = random.choice(own + [each for each in others if isinstance(each, str)] or [value + value])
        case str():
            of[key] = hostile(value, random)
        case list() if value:
            edit = random.randrange(5)
            if edit == 0:
                value.reverse()
            elif edit == 1:
                del value[random.randrange(len(value)) :]
            elif edit == 2:
                value.append(json.loads(json.dumps(random.choice(value))))
            elif len(one := json.dumps(random.choice(value))) < MOST_BYTES:
                copies = min(random.choice((20, 3000, 100_000)), MOST_BYTES // len(one))
                value.extend(distinct(json.loads(one), n, edit == 3) for n in range(copies))
        case dict() if value:
            value[TWICE + random.choice(list(value))] = random.choice(list(value.values()))


def lists(tree: Any) -> dict[str, tuple[str | int, ...]]:
    """Where each kind of list is, by the names on the way to it, the first of each kind that is not empty."""
    found: dict[str, tuple[str | int, ...]] = {}
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, list) and value:
            found.setdefault(".".join(each for each in path if isinstance(each, str)), path)
        if isinstance(value, (dict, list)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            stack += [((*path, key), inner) for key, inner in items]
    return dict(sorted(found.items()))


def grown(base: bytes, path: Sequence[str | int], most: int, chained: bool) -> bytes:
    """The JSON with a list repeated until it has about `most` bytes."""
    tree = json.loads(base)
    value = tree
    for key in path:
        value = value[key]
    one = json.dumps(value[-1])
    value += [distinct(json.loads(one), n, chained) for n in range(most // len(one))]
    return json.dumps(tree).encode()


def distinct(value: Any, n: int, chained: bool) -> Any:
    """A copy with an id of its own, each in a chain with the one before it where that is asked for."""
    if isinstance(value, dict):
        made = dict(value)
        for name in ("id", "name", "title"):
            if isinstance(made.get(name), str):
                made[name] += f"+{n}"
        for name in ("inputs", "origins", "reads", "operations") if chained and "id" in value else ():
            if isinstance(made.get(name), list):
                made[name] = [f"{value['id']}+{n - 1}", value["id"]]
        for name in ("caller", "step") if chained else ():
            if isinstance(made.get(name), int):
                made[name] = n
        if chained and "continues" in value:
            made["continues"] = f"{value['id']}+{n - 1}"
        return made
    return value


def change(found: list[Place], random: Random) -> None:
    """One change at a random place, or the same one at all places of its name. Most keep the kind of the value."""
    if not found:
        return
    of, key = random.choice(found)
    value = of[key] if isinstance(of, dict) and key in of or isinstance(of, list) and key < len(of) else None
    if value is None:
        return
    if random.random() < 0.15 and isinstance(key, str):
        instead = hostile(value, random)
        for container, name in found:
            if name == key and isinstance(container, dict) and type(container.get(name)) is type(value):
                container[name] = instead
        return
    match random.randrange(18):
        case 16:
            of[key] = DEEP
        case 17 if isinstance(of, dict) and isinstance(key, str):
            of[TWICE + key] = hostile(value, random)
        case 0 if isinstance(of, dict):
            del of[key]
        case 1:
            of[key] = json.loads(random.choice(OTHERS))
        case 2 if isinstance(value, dict):
            value[random.choice(TEXTS)] = hostile("", random)
        case 3 | 4 | 5 if isinstance(value, list) and value:
            copies = random.choice((2, 3, MOST_COPIES))
            written = json.dumps(value)
            if len(written) * copies < MOST_BYTES:  # copies, not the same lists again: those would grow each other
                value[:] = [each for _ in range(copies) for each in json.loads(written)]
        case 6 | 7 if isinstance(value, list):
            random.shuffle(value)
        case 8 | 9 | 10:
            same = [at for at in random.sample(found, min(50, len(found))) if at[1] == key and type(at[0]) is type(of)]
            for container, name in same[:1]:
                if isinstance(container, dict) and name in container:
                    of[key] = json.loads(json.dumps(container[name]))
        case _:
            of[key] = hostile(value, random)


def hostile(value: Any, random: Random) -> Any:
    """Something of the same kind that nobody would write."""
    match value:
        case bool():
            return not value
        case int() | float():
            return random.choice(NUMBERS)
        case str():
            said = random.choice(TEXTS)
            if random.random() < 0.02:
                said = random.choice(HALVES)
            return random.choice((said, value + said, said + value))
        case list():
            return [hostile(value[0] if value else "", random) for _ in range(random.choice((0, 1, 7)))]
    return json.loads(random.choice(OTHERS))


def damaged(made: bytes, random: Random) -> bytes:
    """Bytes cut, changed, doubled or put in between."""
    at = random.randrange(len(made) + 1)
    match random.randrange(4):
        case 0:
            return made[:at]
        case 1:
            return made[:at] + bytes(random.randrange(256) for _ in range(9)) + made[at + 9 :]
        case 2:
            return made[:at] + made[at : at + 99] * 2 + made[at + 99 :]
    return made[:at] + random.choice((b"\x00", b"\xff\xfe", b"[" * 5000, b"{}", b"\n\t", b"\x1f\x8b")) + made[at:]


HEAD = re.compile(r"(.*?\] )(\{.*)")


def mutated_log(base: str, random: Random) -> bytes:
    """A log with some of its entries changed, their checksums as they should be, and some of its lines moved."""
    entries = re.split(r"(?m)^(?=[VIWE]\d{4} )", base)
    for _ in range(random.choice((1, 2, 5, 30))):
        at = random.randrange(len(entries))
        match random.randrange(6):
            case 0:
                del entries[at : at + random.choice((1, 5))]
            case 1:
                entries[at:at] = [entries[at]] * random.choice((1, 50))
            case 2:
                random.shuffle(entries)
            case _:
                entries[at] = entry(entries[at], random)
        entries = entries or [""]
    made = "".join(entries).encode(errors="replace")
    return damaged(made, random) if random.random() < 0.2 else made


def entry(text: str, random: Random) -> str:
    """An entry with another head, or another payload and the checksum of that."""
    head, _, rest = text.partition("\n")
    found = HEAD.fullmatch(head)
    if found is None:
        return text + random.choice(TEXTS)
    fields = json.loads(found[2])
    payload = re.sub(r"(?m)^\t", "", rest).removesuffix("\n") if rest else None
    if payload is None or random.random() < 0.5:
        for _ in range(random.choice((1, 3))):
            change(places(fields), random)
    elif payload[:1] in "[{":
        try:
            tree = json.loads(payload)
        except ValueError:
            tree = [payload]
        change(places(tree), random)
        payload = json.dumps(tree)
    else:
        lines = payload.split("\n")
        at = random.randrange(len(lines))
        lines[at : at + random.choice((0, 1, 9))] = [random.choice((lines[at] * 50, random.choice(TEXTS)))]
        payload = "\n".join(lines)
    if payload is not None:
        fields["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    tail = "" if payload is None else "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"{found[1]}{json.dumps(fields)}\n{tail}"
