"""What differs between two texts: right on random ones, and linear in what one can be made to look at."""

import difflib
import random

import pytest

from explorer.show.view import difference


def random_texts(seed: int) -> tuple[list[str], list[str]]:
    chosen = random.Random(seed)
    kinds = chosen.choice([2, 4, 30])
    old = [str(chosen.randrange(kinds)) for _ in range(chosen.randrange(40))]
    new = list(old)
    for _ in range(chosen.randrange(8)):
        at = chosen.randrange(len(new) + 1)
        new[at : at + chosen.randrange(3)] = [str(chosen.randrange(kinds)) for _ in range(chosen.randrange(3))]
    return old, new


@pytest.mark.parametrize("seed", range(200))
def test_changes_cover_both_texts_and_say_what_is_equal(seed: int) -> None:
    old, new = random_texts(seed)
    at = (0, 0)
    for tag, a, i, b, j in difference.changes(old, new):
        assert (a, b) == at and (i, j) != at
        assert (tag == "equal") == (old[a:i] == new[b:j])
        at = i, j
    assert at == (len(old), len(new))


@pytest.mark.parametrize("seed", range(200))
def test_a_unified_diff_leads_from_one_text_to_the_other(seed: int) -> None:
    old, new = random_texts(seed)
    whole = list(difference.unified(old, new, ("a", "b"), context=99))[3:]
    assert [line[1:] for line in whole if line[0] != "+"] == (old if old != new else [])
    assert [line[1:] for line in whole if line[0] != "-"] == (new if old != new else [])
    short = list(difference.unified(old, new, ("a", "b"), context=3))
    reference = list(difflib.unified_diff(old, new, lineterm="", n=3))
    assert [line[0] for line in short[:2]] == [line[0] for line in reference[:2]]
    assert len([line for line in short if line[0] == " "]) <= len(old)


@pytest.mark.parametrize("made", [lambda n: ["a", "b"] * n, lambda n: [str(k % 97) for k in range(n)]])
def test_repeated_lines_are_not_compared_each_with_each(made, monkeypatch) -> None:
    """Counted, not timed: the pairs of lines that the full comparison is given."""
    looked = 0
    plain = difflib.SequenceMatcher

    def counting(junk, old, new, autojunk):
        nonlocal looked
        looked += len(old) * len(new)
        return plain(junk, old, new, autojunk)

    monkeypatch.setattr(difference.difflib, "SequenceMatcher", counting)
    old = made(20_000)
    new = ["first", *old[7:], "last"]
    found = difference.changes(old, new)
    assert looked <= 10 * (len(old) + len(new)) and found[-1][2::2] == (len(old), len(new))
