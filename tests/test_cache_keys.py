"""What stock's caches answered in a watched program, and which part of a key differed."""

from __future__ import annotations

import random
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import explorer
from explorer.ir.record import CacheKeyData
from explorer.records.stock.caches import add_key
from explorer.records.stock.observation import Compile, Observation
from explorer.show.view import caches
from torch_release import BEFORE_2_13


def scaled(x):
    return torch.relu(x) * 2


def watched(*sizes: int, **options: object) -> explorer.Record:
    with explorer.watch() as log:
        for size in sizes:
            torch.compiler.reset()
            torch.compile(scaled, dynamic=False, **options)(torch.ones(size))
    return log.record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))


@pytest.mark.slow
def test_hit_miss_and_the_part_that_differed(tmp_path: Path) -> None:
    record = watched(3, 3, 5)
    said = str(record.caches)
    assert said.count("FX graph cache: miss: ") == 2 and said.count("FX graph cache: hit: ") == 1
    assert caches.FIRST_KEY in said
    last = [key for key in record.caches if key.cache == "FX graph cache"][-1]
    assert set(last.parts) == {"example_inputs[0]"} and "[5]" in last.parts["example_inputs[0]"]
    assert "example_inputs[0]: now TensorMetadata" in said

    record.save(tmp_path / "a.explore.json.gz")
    other = watched(3, options={"epilogue_fusion": False})
    found = explorer.Record.load(tmp_path / "a.explore.json.gz").diff(other).summary
    parts = [line for line in found if line.startswith("part of the key ")]
    # Before torch 2.13, the key of AOTAutograd's cache holds the settings of Inductor too.
    assert len(parts) == (2 if BEFORE_2_13 else 1)
    assert all("inductor_config[epilogue_fusion]: " in part for part in parts)


def test_an_exploration_says_that_it_passes_them_by() -> None:
    record = explorer.explore(scaled, time=False)(torch.ones(3))
    assert re.search(r"\w+\.so: (found|built)", str(record.caches))
    assert len(record.caches) == 0


@pytest.mark.parametrize("seed", range(40))
def test_keys_are_whole_again_whatever_was_nearest(seed: int) -> None:
    """Each key is kept as what differs from the nearest one; together they give all parts back."""
    chosen = random.Random(seed)
    seen = Observation()
    compile = Compile("s0", "scaled")
    seen.compile = lambda: compile  # type: ignore[method-assign]
    whole = {}
    for number in range(chosen.randrange(1, 30)):
        parts = {f"p{chosen.randrange(6)}[{n}]": f"{chosen.randrange(3)}" for n in range(chosen.randrange(5))}
        details = [f"[h{text}] {name}: {text}" for name, text in parts.items()]
        add_key(seen, chosen.choice(["A", "B"]), f"key{number}", details)
        whole[f"s0.key{number}"] = {name: f"h{text} {text}" for name, text in parts.items()}
    record = SimpleNamespace(compiles=[SimpleNamespace(cache_keys=compile.cache_keys)])
    found = caches.whole_keys(record)  # type: ignore[arg-type]
    assert {id: dict(parts) for (id, _), parts in found.items()} == whole


def test_a_part_that_is_unknown_is_not_made_up() -> None:
    first = CacheKeyData("s0.key0", "C", "a", {})
    other = CacheKeyData("s1.key0", "C", "b", {}, "s0.key0")
    same = CacheKeyData("s2.key0", "C", "b", {}, "s1.key0")
    known = {key.id: key.key for key in (first, other, same)}
    assert list(caches.differs(first, known)) == [f"C: {caches.NO_PARTS}"]
    assert list(caches.differs(other, known)) == [f"C: {caches.NO_PARTS}"]
    assert "whose entry was not kept" in next(iter(caches.differs(same, known)))
