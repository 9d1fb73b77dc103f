"""Tests of torch's own texts and choices are those of the release that they were written with."""

import torch

BEFORE_2_13 = torch.torch_version.TorchVersion(torch.__version__) < "2.13"
