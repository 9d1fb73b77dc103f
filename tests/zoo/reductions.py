"""Many values into fewer: sums, moments, extrema, norms, softmax, scans, sorting."""

import torch
import torch.nn.functional as F

from zoo.program import call, program


@program(
    "reduction multi_output",
    inputs=lambda: call(torch.randn(3, 4, 5)),
    other_inputs=(lambda: call(torch.randn(2, 7, 3)),),
    grad=True,
)
def sums(x):
    return x.sum(), x.sum(0), x.sum((0, 2)), x.sum(-1, keepdim=True), x.mean((1, 2))


@program(
    "pointwise reduction",
    inputs=lambda: call(torch.randn(6, 9)),
    large=lambda: call(torch.randn(1024, 1024)),
    grad=True,
)
def pointwise_then_reduction(x):
    return (torch.exp(x) * 0.5 + x).sum(dim=1)


@program(
    "pointwise reduction",
    inputs=lambda: call(torch.randn(6, 9)),
    large=lambda: call(torch.randn(1024, 1024)),
    grad=True,
)
def reduction_then_pointwise(x):
    return torch.sqrt(x.pow(2).mean(dim=1) + 1e-6).log()


@program("reduction", inputs=lambda: call(torch.randn(6, 5)), grad=True)
def reduction_over_rows_and_columns(x):
    return x.sum(0) * x.sum(1).mean() + x.amax(0)


@program("reduction multi_output", inputs=lambda: call(torch.randn(4, 7)), grad=True)
def moments(x):
    variance, mean = torch.var_mean(x, dim=1)
    return x.var(), x.std(0), x.var(1, correction=0), variance, mean


def has_derivative(fn):
    """Whether this version of torch differentiates `fn`."""
    try:
        fn(torch.ones(2, 2, requires_grad=True)).sum().backward()
    except (RuntimeError, NotImplementedError):
        return False
    return True


@program(
    "reduction multi_output",
    inputs=lambda: call(torch.randn(4, 7)),
    grad=has_derivative(lambda x: torch.aminmax(x, dim=0).max),
)
def extrema(x):
    largest = x.max(dim=1)
    return x.amax(1), x.amin(0), largest.values, largest.indices, x.max(), x.min(), torch.aminmax(x, dim=0).max


@program("reduction bool multi_output", inputs=lambda: call(torch.randn(3, 5)))
def any_all(x):
    return (x > 0).any(), (x > -9).all(), (x > 0.5).any(1), (x < 0).all(0), torch.count_nonzero(x > 0, dim=1)


@program("reduction multi_output", inputs=lambda: call(torch.rand(3, 4) + 0.5), grad=True)
def products(x):
    return x.prod(), x.prod(1), x.cumprod(1)


@program("reduction multi_output", inputs=lambda: call(torch.randn(4, 6)), grad=True)
def norms(x):
    return x.norm(), x.norm(dim=1), torch.linalg.vector_norm(x, 1, dim=0), x.norm(float("inf"), dim=1), F.normalize(x)


@program(
    "softmax reduction",
    inputs=lambda: call(torch.randn(4, 9)),
    other_inputs=(lambda: call(torch.randn(2, 3, 5)),),
    large=lambda: call(torch.randn(2048, 1024)),
    grad=True,
)
def softmax(x):
    return torch.softmax(x, dim=-1)


@program("softmax reduction", inputs=lambda: call(torch.randn(4, 9)), grad=True)
def softmax_by_hand(x):
    shifted = x - x.amax(dim=-1, keepdim=True)
    weights = shifted.exp()
    return weights / weights.sum(dim=-1, keepdim=True)


@program("softmax reduction multi_output", inputs=lambda: call(torch.randn(4, 3, 5)), grad=True)
def log_softmax_over_middle(x):
    return F.log_softmax(x, dim=1), torch.logsumexp(x, dim=(0, 2)), F.softmin(x, dim=0)


@program("scan multi_output", inputs=lambda: call(torch.randn(4, 6)), grad=True)
def scans(x):
    return x.cumsum(1), x.cumsum(0) * 2.0, torch.logcumsumexp(x, 1), x.cummax(1).values


@program("sort multi_output", inputs=lambda: call(torch.randn(4, 6)), grad=True)
def sorting(x):
    values, order = torch.sort(x, dim=1, descending=True)
    best = torch.topk(x, 2, dim=1)
    return values.relu(), order, best.values * 2.0, best.indices, x.argsort(0), x.median(1).values, x.kthvalue(2).values


@program("reduction", inputs=lambda: call(torch.randn(5, 3), torch.randn(4, 3)), grad=True, rtol=1e-4)
def pairwise_distances(a, b):
    return torch.cdist(a, b) + ((a[:, None] - b[None]) ** 2).sum(-1)


@program(
    "reduction dynamic",
    inputs=lambda: call(torch.randn(1, 17)),
    other_inputs=(lambda: call(torch.randn(5, 1)),),
    grad=True,
)
def reductions_of_size_one(x):
    return x.sum(0) + x.mean(1, keepdim=True).sum() + x.amax(0)


@program("reduction noncontiguous", inputs=lambda: call(torch.randn(5, 4, 6).permute(2, 0, 1)), grad=True)
def reduce_permuted(x):
    return x.sum(1) + x.mean(1)


@program("reduction scan", inputs=lambda: call(torch.randn(3, 8)), grad=True)
def normalised_ranks(x):
    centerd = x - x.mean(1, keepdim=True)
    scaled = centerd / (centerd.square().mean(1, keepdim=True) + 1e-5).sqrt()
    return scaled.softmax(1).cumsum(1)
