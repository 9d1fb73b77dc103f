"""What the tests of graphs that raise share."""

import traceback

import torch

from torch_release import BEFORE_2_13


def written(x, i, log):
    y = x[i] + 1
    x.add_(1)
    return y


def outcome(function, i, x=None):
    x, log = torch.arange(4.0) if x is None else x, []
    try:
        result = function(x, i, log)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        result = (type(error), str(error), type(error.__context__), last.line)
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    return str(result), str(x), log, modes


# Before torch 2.13, AOTAutograd drops calls that would raise.
RAISING_BACKENDS = ("explorer", "eager", *(() if BEFORE_2_13 else ("aot_eager",)))


def refused(x):
    return x.tril() if x.dim() == 1 else x + 1
