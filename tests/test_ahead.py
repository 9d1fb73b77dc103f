"""What is paid ahead of the first exploration: while nobody runs a cell, step by step, and without a trace."""

import asyncio
import threading

import pytest
import torch

from explorer.show.notebook.session import Ahead, compiled


def test_steps_are_taken_one_by_one_once_no_cell_was_run_for_a_while() -> None:
    taken: list[str] = []

    async def session() -> None:
        ahead = Ahead([lambda: taken.append("one"), lambda: taken.append("two")], wait=0.01)
        ahead.ended()
        assert not taken
        await asyncio.sleep(0.1)
        assert taken == ["one", "two"]
        ahead.ended()
        await asyncio.sleep(0.03)

    asyncio.run(session())
    assert taken == ["one", "two"]


def test_a_cell_comes_first() -> None:
    taken: list[str] = []

    async def session() -> None:
        ahead = Ahead([lambda: taken.append("one")], wait=0.02)
        ahead.ended()
        ahead.starts()
        await asyncio.sleep(0.05)
        assert not taken
        ahead.ended()
        await asyncio.sleep(0.05)

    asyncio.run(session())
    assert taken == ["one"]


def test_an_exploration_makes_it_needless() -> None:
    taken: list[str] = []

    async def session() -> None:
        ahead = Ahead([lambda: taken.append("one")], wait=0.01)
        ahead.ended()
        ahead.drop()
        ahead.ended()
        await asyncio.sleep(0.05)

    asyncio.run(session())
    assert not taken


def test_a_shell_without_a_kernel_takes_none() -> None:
    def step() -> None:
        pytest.fail("taken")

    Ahead([step], wait=0).ended()


def test_the_program_that_goes_ahead_leaves_no_trace() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    threads = threading.active_count()
    compiled()
    assert torch.equal(torch.rand(3), expected)
    assert torch.is_grad_enabled()
    assert threading.active_count() == threads
