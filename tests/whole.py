"""What the tests of programs in one graph share."""

import torch


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, (tuple, list)):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, dict):
        same(list(found.items()), list(expected.items()))
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert found == expected
