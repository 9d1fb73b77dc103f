"""What users of torch.compile ask is answered by the record of a small program: docs/situations.md is made of these."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch

from situations import SITUATIONS, Situation
from torch_release import BEFORE_2_13


def test_there_are_enough() -> None:
    assert len(SITUATIONS) >= 130


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_the_record_answers(situation: Situation) -> None:
    if situation.words_of_2_13 and BEFORE_2_13:
        pytest.skip("the sentence is that of torch 2.13")
    torch.manual_seed(0)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = situation.text(situation.record())
    finally:
        logging.disable(logging.NOTSET)
        torch._dynamo.reset()
    for said in situation.says:
        assert said in text
