"""Library calls and what surrounds them: matmul, convolution, pooling, normalization, losses, attention."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from zoo.program import call, program

WEIGHTY = {"grad": True, "rtol": 1e-4, "atol": 1e-5}


@program(
    "matmul pointwise",
    inputs=lambda: call(torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)),
    other_inputs=(lambda: call(torch.randn(2, 3, 6), torch.randn(5, 6), torch.randn(5)),),
    large=lambda: call(torch.randn(512, 512), torch.randn(512, 512), torch.randn(512)),
    **WEIGHTY,
)
def linear_gelu(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


@program(
    "matmul multi_output",
    inputs=lambda: call(torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)),
    **WEIGHTY,
)
def batched_matmuls(a, b, c):
    return (
        torch.bmm(a, b),
        torch.baddbmm(c, a, b, beta=0.5, alpha=2.0),
        a @ b[0],
        torch.matmul(a[0], b[0, :, 0]),
        c.mT @ a,
    )


@program(
    "matmul", inputs=lambda: call(torch.randn(3, 4), torch.randn(4, 5), torch.randn(5), torch.randn(3, 5)), **WEIGHTY
)
def matmul_variants(a, b, v, c):
    return torch.addmm(c, a, b) + (a @ b).relu() + (b @ v).sum() + torch.dot(v, v) + torch.addmm(v, a, b, alpha=0.5)


@program("matmul int", inputs=lambda: call(torch.randint(-3, 4, (3, 4)), torch.randint(-3, 4, (4, 2))))
def integer_matmul(a, b):
    return a @ b + 1


@program(
    "matmul pointwise reduction",
    inputs=lambda: call(torch.randn(4, 8), torch.randn(16, 8), torch.randn(16), torch.randn(8, 16), torch.randn(8)),
    large=lambda: call(
        torch.randn(256, 512), torch.randn(1024, 512), torch.randn(1024), torch.randn(512, 1024), torch.randn(512)
    ),
    **WEIGHTY,
)
def residual_mlp(x, w1, b1, w2, b2):
    hidden = torch.relu(F.linear(F.layer_norm(x, (x.shape[-1],)), w1, b1))
    return x + F.linear(hidden, w2, b2)


@program(
    "conv multi_output", inputs=lambda: call(torch.randn(2, 3, 10), torch.randn(4, 3, 3), torch.randn(4)), **WEIGHTY
)
def conv1ds(x, weight, bias):
    return F.conv1d(x, weight, bias, padding=1).relu(), F.conv1d(x, weight, stride=2, dilation=2)


@program(
    "conv pointwise",
    inputs=lambda: call(torch.randn(1, 4, 6, 6), torch.randn(4, 4, 3, 3), torch.randn(4, 1, 3, 3), torch.randn(4)),
    **WEIGHTY,
)
def conv2ds(x, weight, depthwise, bias):
    return F.conv2d(F.relu(F.conv2d(x, weight, bias, padding=1)), depthwise, groups=4, stride=2)


@program("conv", inputs=lambda: call(torch.randn(1, 3, 4, 4), torch.randn(3, 2, 3, 3), torch.randn(2)), **WEIGHTY)
def conv_transposes(x, weight, bias):
    return F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1) * 0.5


@program(
    "conv channels_last",
    inputs=lambda: call(
        torch.randn(2, 4, 5, 5).contiguous(memory_format=torch.channels_last),
        torch.randn(6, 4, 3, 3).contiguous(memory_format=torch.channels_last),
    ),
    **WEIGHTY,
)
def conv_channels_last(x, weight):
    return F.silu(F.conv2d(x, weight, padding=1))


@program("pool multi_output", inputs=lambda: call(torch.randn(2, 3, 6, 6)), **WEIGHTY)
def pools(x):
    return (
        F.max_pool2d(x, 2),
        F.avg_pool2d(x, 3, stride=2, padding=1),
        F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False),
        F.adaptive_avg_pool2d(x, (2, 3)),
        F.adaptive_avg_pool2d(x, 1).flatten(1),
        F.max_pool2d(x, 3, stride=1, padding=1, dilation=1),
        F.adaptive_max_pool2d(x, 2),
        F.max_pool1d(x[:, :, 0], 2),
    )


@program(
    "norm reduction pointwise",
    inputs=lambda: call(torch.randn(4, 8), torch.randn(8), torch.randn(8)),
    other_inputs=(lambda: call(torch.randn(2, 3, 8), torch.randn(8), torch.randn(8)),),
    large=lambda: call(torch.randn(2048, 1024), torch.randn(1024), torch.randn(1024)),
    **WEIGHTY,
)
def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


@program(
    "norm reduction pointwise",
    inputs=lambda: call(torch.randn(4, 8), torch.randn(8)),
    large=lambda: call(torch.randn(2048, 1024), torch.randn(1024)),
    **WEIGHTY,
)
def rms_norm_by_hand(x, weight):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


@program("norm multi_output", inputs=lambda: call(torch.randn(2, 4, 3, 3), torch.randn(4), torch.randn(4)), **WEIGHTY)
def group_instance_rms_norms(x, weight, bias):
    return F.group_norm(x, 2, weight, bias), F.instance_norm(x), F.rms_norm(x, (3,)), F.local_response_norm(x, 2)


@program("norm module buffers training", inputs=lambda: call(torch.randn(4, 3, 5, 5)), **WEIGHTY)
class BatchNormTrains(nn.Module):
    """Normalizes by the batch and moves its running statistics."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3, momentum=0.2)

    def forward(self, x):
        return torch.relu(self.norm(x))


@program("norm module buffers", inputs=lambda: call(torch.randn(4, 3)), factory=True, **WEIGHTY)
def batch_norm_evaluates():
    norm = nn.BatchNorm1d(3)
    norm.running_mean.copy_(torch.tensor([0.5, -1.0, 2.0]))
    norm.running_var.copy_(torch.tensor([1.5, 0.25, 3.0]))
    return norm.eval()


@program("loss multi_output", inputs=lambda: call(torch.randn(5, 4), torch.randint(0, 4, (5,))), **WEIGHTY)
def classification_losses(logits, target):
    ignored = torch.where(target == 0, -100, target)
    return (
        F.cross_entropy(logits, target),
        F.cross_entropy(logits, target, label_smoothing=0.1, reduction="sum"),
        F.cross_entropy(logits, ignored, weight=torch.tensor([1.0, 2.0, 0.5, 1.0])),
        F.nll_loss(F.log_softmax(logits, -1), target, reduction="none"),
        F.multi_margin_loss(logits, target),
    )


@program("loss multi_output", inputs=lambda: call(torch.randn(4, 3), torch.randn(4, 3)), **WEIGHTY)
def regression_losses(x, y):
    return F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y, beta=0.5), F.huber_loss(x, y, reduction="sum")


@program("loss multi_output", inputs=lambda: call(torch.randn(4, 3), torch.rand(4, 3)), **WEIGHTY)
def probability_losses(logits, target):
    probability = torch.sigmoid(logits)
    return (
        F.binary_cross_entropy(probability, target.detach()),
        F.binary_cross_entropy_with_logits(logits, target),
        F.kl_div(F.log_softmax(logits, -1), target.softmax(-1), reduction="batchmean"),
        F.cosine_embedding_loss(logits, target, torch.ones(4)),
    )


def qkv(*shape):
    return torch.randn(*shape), torch.randn(*shape), torch.randn(*shape)


@program(
    "attention softmax matmul",
    inputs=lambda: call(*qkv(1, 2, 5, 4)),
    large=lambda: call(*qkv(2, 8, 256, 64)),
    **WEIGHTY,
)
def attention_by_hand(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    future = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


@program(
    "attention",
    inputs=lambda: call(*qkv(1, 2, 5, 4)),
    large=lambda: call(*qkv(2, 8, 256, 64)),
    **WEIGHTY,
)
def attention_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@program(
    "attention multi_output",
    inputs=lambda: call(*qkv(1, 2, 5, 4), torch.rand(5, 5) > 0.2, torch.randn(2, 5, 5)),
    **WEIGHTY,
)
def attention_masked(q, k, v, mask, bias):
    mask = mask | torch.eye(5, dtype=torch.bool)
    return F.scaled_dot_product_attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, bias, scale=0.3)


@program(
    "attention",
    inputs=lambda: call(torch.randn(1, 4, 5, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)),
    **WEIGHTY,
)
def attention_grouped_query(q, k, v):
    k, v = (t.repeat_interleave(2, dim=1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


@program("attention module matmul", inputs=lambda: call(torch.randn(2, 4, 8)), **WEIGHTY)
class MultiHeadAttention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(b, s, d))


@program("attention module", inputs=lambda: call(torch.randn(2, 3, 8)), factory=True, **WEIGHTY)
def torch_multihead_attention():
    class SelfAttention(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x, x, x, need_weights=True)

    return SelfAttention(8, 2, batch_first=True)


@program("attention pointwise", inputs=lambda: call(torch.randn(1, 2, 6, 4)), **WEIGHTY)
def rotary_embedding(x):
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] / 10000.0 ** (torch.arange(half) / half)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@program("module matmul activation", inputs=lambda: call(torch.randn(3, 8)), **WEIGHTY)
class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 12, bias=False)
        self.up = nn.Linear(8, 12, bias=False)
        self.down = nn.Linear(12, 8, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))
