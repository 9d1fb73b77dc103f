"""Whole networks, written out and narrow: a training step of each takes milliseconds on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.program import Inputs, call, seeded


@dataclass(frozen=True)
class Model:
    """A network, the inputs of one call, and the scalar loss of its output. `build()` and `inputs()` are seeded."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Inputs
    loss: Callable[[Any], Tensor]
    random: bool = False  # draws random numbers: compare under `manual_seed`
    note: str = ""
    available: bool = True  # the library that it comes from is installed
    large: Inputs | None = None
    rtol: float = 2e-4
    atol: float = 2e-5
    grad: bool = True
    breaks: int = 0
    frozen: tuple[int | str, ...] = ()
    state: Callable[[Any], Any] | None = None

    def build(self) -> nn.Module:
        return seeded(self.make)()


def classification_loss(logits: Tensor) -> Tensor:
    """Cross entropy of (..., classes) logits against the classes in turn."""
    flat = logits.flatten(0, -2)
    return F.cross_entropy(flat, torch.arange(flat.shape[0], device=flat.device) % flat.shape[1])


def squared_loss(output: Tensor) -> Tensor:
    return (output - 0.5).square().mean()


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    """Four stages of two basic blocks, as in ResNet-18, 8 to 64 channels wide."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        stages, inputs = [], width
        for depth in range(4):
            outputs = width << depth
            stride = 1 if depth == 0 else 2
            stages.append(nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)))
            inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def forward(self, image: Tensor) -> Tensor:
        features = self.stages(self.stem(image))
        return self.head(F.adaptive_avg_pool2d(features, 1).flatten(1))


class LSTM(nn.Module):
    """An LSTM cell by hand, unrolled over time, with a read-out at each step."""

    def __init__(self, inputs: int = 6, hidden: int = 8, outputs: int = 4) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(inputs, 4 * hidden)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False)
        self.read = nn.Linear(hidden, outputs)

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (self.from_input(x) + self.from_hidden(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, sequence: Tensor) -> Tensor:
        h = c = sequence.new_zeros(sequence.shape[1], self.hidden)
        outputs = []
        for x in sequence:
            h, c = self.step(x, h, c)
            outputs.append(self.read(h))
        return torch.stack(outputs)


class DoubleConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.SiLU()]
        super().__init__(*layers)


class UNet(nn.Module):
    """Two levels down, two up, with skip connections by concatenation."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.down1 = DoubleConv(1, width)
        self.down2 = DoubleConv(width, 2 * width)
        self.middle = DoubleConv(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.join2 = DoubleConv(4 * width, 2 * width)
        self.join1 = DoubleConv(3 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.down1(image)
        coarse = self.down2(F.max_pool2d(fine, 2))
        deepest = self.middle(F.max_pool2d(coarse, 2))
        coarse = self.join2(torch.cat([self.up2(deepest), coarse], dim=1))
        up = F.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.join1(torch.cat([up, fine], dim=1)))


class MixerBlock(nn.Module):
    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, 8), nn.GELU(), nn.Linear(8, patches))
        self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """MLP-Mixer: patches by a strided convolution, then mixing over patches and over channels."""

    def __init__(self, size: int = 16, patch: int = 4, width: int = 16, depth: int = 2, classes: int = 5) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.blocks = nn.Sequential(*(MixerBlock((size // patch) ** 2, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


def time_embedding(steps: Tensor, width: int) -> Tensor:
    """Sinusoids of the diffusion step: (batch,) -> (batch, width)."""
    half = width // 2
    frequencies = torch.exp(-math.log(10000.0) * torch.arange(half, device=steps.device) / half)
    angles = steps[:, None].float() * frequencies[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class TimeBlock(nn.Module):
    """A diffusion network's residual block: the embedded time scales and shifts the normalized features."""

    def __init__(self, channels: int = 4, embedding: int = 16) -> None:
        super().__init__()
        self.embedding = embedding
        self.time = nn.Sequential(nn.Linear(embedding, 32), nn.SiLU(), nn.Linear(32, 2 * channels))
        self.norm1, self.norm2 = nn.GroupNorm(2, channels), nn.GroupNorm(2, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        scale, shift = self.time(time_embedding(steps, self.embedding))[:, :, None, None].chunk(2, dim=1)
        y = self.conv1(F.silu(self.norm1(x)))
        y = self.norm2(y) * (1 + scale) + shift
        return x + self.conv2(F.silu(y))


class SmallCNN(nn.Module):
    """The demo's convolutional network."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(image))), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(self.future[:length, :length], float("-inf"))
        mixed = scores.softmax(dim=-1) @ v
        return self.project(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Two GPT blocks with attention spelled out."""

    def __init__(self, vocabulary: int = 32, width: int = 16, heads: int = 2, length: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GPTBlock(width, heads, length) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class VAE(nn.Module):
    """Returns the reconstruction and the posterior's mean and log variance."""

    def __init__(self, inputs: int = 12, latent: int = 3) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, inputs))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, dim=-1)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decode(z), mean, log_variance


def vae_loss(output: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    reconstruction, mean, log_variance = output
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1).mean()
    return squared_loss(reconstruction) + 0.1 * divergence


class TiedLanguageModel(nn.Module):
    """One weight embeds the tokens and scores them; the hidden layer mixes a window of the past."""

    def __init__(self, vocabulary: int = 24, width: int = 12, window: int = 3) -> None:
        super().__init__()
        self.window = window
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.Linear(window * width, width)
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, vocabulary, bias=False)
        self.score.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.pad(self.embed(tokens), (0, 0, self.window - 1, 0))
        past = x.unfold(1, self.window, 1).flatten(2)
        return self.score(self.norm(torch.tanh(self.mix(past))))


def model(
    name: str, make: Callable[[], nn.Module], inputs: Inputs, loss: Callable[[Any], Tensor], **facts: Any
) -> Model:
    return Model(name, make, seeded(inputs), loss, **facts)


MODELS: tuple[Model, ...] = (
    model("resnet18", ResNet18, lambda: call(torch.randn(2, 3, 16, 16)), classification_loss),
    model("lstm", LSTM, lambda: call(torch.randn(5, 2, 6)), classification_loss),
    model("unet", UNet, lambda: call(torch.randn(2, 1, 16, 16)), squared_loss),
    model("mixer", Mixer, lambda: call(torch.randn(2, 3, 16, 16)), classification_loss),
    model("diffusion_block", TimeBlock, lambda: call(torch.randn(2, 4, 8, 8), torch.tensor([3, 250])), squared_loss),
    model("small_cnn", SmallCNN, lambda: call(torch.randn(4, 1, 16, 16)), classification_loss),
    model("gpt", GPT, lambda: call(torch.randint(0, 32, (2, 8))), classification_loss),
    model("vae", VAE, lambda: call(torch.randn(4, 12)), vae_loss, random=True),
    model("tied_language_model", TiedLanguageModel, lambda: call(torch.randint(0, 24, (2, 7))), classification_loss),
)
