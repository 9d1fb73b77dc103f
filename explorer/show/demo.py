"""The demo: a GPT-2 from transformers and a small convolutional network, in inference and in a training step, through
our compiler and stock `torch.compile`, compared with eager."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.api import configure
from explorer.compiler.runtime.compiler import chosen_compiler
from explorer.core.reasons import CATALOGUE, Unsupported
from explorer.core.recorder import CompileRun, Progress, StageRun
from explorer.core.text import complaint
from explorer.records.check.trial import Trial
from explorer.records.exploration import Asked, Observed, explored
from explorer.records.stock.contestant import Stock
from explorer.records.stock.contestant import stock as compile_with_stock
from explorer.show.record import Record, write_whole
from explorer.show.view import html
from explorer.show.view.html import IndexRow

SEED = 0

SECONDS_OF_TIMING = 0.4
"""For each contestant while the report is waited for."""

SECONDS_BESIDE_STOCK = 1.0
BATCH, LENGTH, VOCABULARY, WIDTH = 4, 64, 1000, 128

NO_TRANSFORMERS = (
    "transformers is not installed, so the demo runs only the CNN; "
    "install it with: pip install 'torch-explorer[models]'"
)


class NextToken(nn.Module):
    """A language model's training loss: each token predicted from those before it. tokens: int64 [batch, length]."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class SmallCNN(nn.Module):
    """Two convolutions and two linear layers. image: float32 [batch, 3, 32, 32] -> logits [batch, classes]."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.fc1 = nn.Linear(32 * 8 * 8, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(image))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        logits: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return logits


class Classification(nn.Module):
    """A classifier's training loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(self.model(image), label)


def gpt2() -> nn.Module:
    """GPT-2 with 2 layers and random weights, dropout off."""
    transformers = importlib.import_module("transformers")
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=2, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=1, attn_implementation="sdpa",
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Case:
    """One column of the demo. `slug` names its files; `make` builds model and inputs from a fixed seed."""

    slug: str
    title: str
    make: Callable[[], Trial]


def _tokens() -> Tensor:
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH))


def _gpt2_inference() -> Trial:
    return Trial(gpt2().eval(), (), {"input_ids": _tokens(), "use_cache": False}, grad=False)


def _gpt2_training() -> Trial:
    return Trial(NextToken(gpt2()).train(), (_tokens(),), {}, grad=True)


def _cnn_inference() -> Trial:
    return Trial(SmallCNN().eval(), (torch.randn(16, 3, 32, 32),), {}, grad=False)


def _cnn_training() -> Trial:
    return Trial(Classification(SmallCNN()).train(), (torch.randn(16, 3, 32, 32), torch.arange(16) % 10), {}, grad=True)


GPT2 = (
    Case("gpt2-inference", "GPT-2, inference", _gpt2_inference),
    Case("gpt2-training", "GPT-2, training step", _gpt2_training),
)
CNN = (
    Case("cnn-inference", "small CNN, inference", _cnn_inference),
    Case("cnn-training", "small CNN, training step", _cnn_training),
)


def cases() -> tuple[Case, ...]:
    """What can run here: without transformers, only the convolutional network."""
    return CNN if find_spec("transformers") is None else GPT2 + CNN


def without_compiler() -> str | None:
    """What the figures mean where no C++ compiler works; None where one is there."""
    try:
        chosen_compiler()
    except Unsupported as refusal:
        hint = CATALOGUE[refusal.why.code].hint
        return f"Nothing is compiled here, so explorer's times are eager's: {refusal.why}. {hint}"
    return None


OnStep = Callable[[str], None]
"""Called with the name of each step of a phase."""


class DemoProgress(Protocol):
    """Where the demo reports its progress."""

    def phase(self, name: str) -> AbstractContextManager[OnStep]:
        """Around a phase that takes a while."""

    def table(self, entries: Sequence[IndexRow]) -> None: ...

    def say(self, line: str) -> None: ...


def demo(out: Path, progress: DemoProgress, *, with_stock: bool = True) -> Path:
    """Run every case, write `out`/SLUG.explore.json.gz, `out`/SLUG.html and `out`/index.html, and return the last.

    Ours and eager come first, with the report readable after them; stock follows, and the files are written again.
    Raises OSError where `out` cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    runs: dict[Case, Observed] = {}
    entries: dict[Case, IndexRow] = {}
    for case in cases():
        with progress.phase(case.title) as step:
            runs[case] = explore_case(case, step)
            step("timing eager and explorer in turn")
            entries[case] = write(out, case, runs[case])
    report = write_index(out, entries.values(), pending=with_stock)
    progress.table(list(entries.values()))
    if not with_stock:
        return report
    progress.say(f"The report is ready: {report}. Stock torch.compile follows, for comparison.")
    raised = ""
    for case, run in runs.items():
        with progress.phase(f"{case.title}: stock") as step:
            try:
                entries[case] = write_with_stock(out, case, run, step)
            except Exception as error:  # of stock's compile, where Python's headers are missing, say
                message = f"{case.title}: stock torch.compile raises {type(error).__name__}: {complaint(str(error))}."
                progress.say(message)
                raised = f"{raised} {message}".strip()
        write_index(out, entries.values(), pending=case is not cases()[-1], raised=raised)
    progress.table(list(entries.values()))
    return report


def explore_case(case: Case, step: OnStep) -> Observed:
    step("building the model")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        trial = case.make()

    def on_stage(compile: CompileRun, stage: StageRun) -> None:
        step(f"{compile.id} {stage.name}")

    return explored(trial, Asked(configure(), case.title, progress=Progress(on_stage=on_stage)))


def write(out: Path, case: Case, run: Observed, stock: Stock | None = None) -> IndexRow:
    """Time the contestants, and write the case's record and page."""
    record = Record(run.record(run.time(stock, budget=SECONDS_BESIDE_STOCK if stock else SECONDS_OF_TIMING)))
    record.save(out / f"{case.slug}.explore.json.gz")
    record.to_html(out / f"{case.slug}.html")
    return IndexRow(record.data, f"{case.slug}.html")


def write_with_stock(out: Path, case: Case, run: Observed, step: OnStep) -> IndexRow:
    phases = {"cold": "compiling with empty caches", "warm": "compiling again with full caches"}
    with compile_with_stock(run.trial, on_phase=lambda phase: step(phases[phase])) as compiled:
        step("timing eager, explorer and stock in turn")
        return write(out, case, run, compiled)


WHAT_IT_IS = (
    "Each program is compiled by explorer, compared with eager, and timed with eager and stock torch.compile. Its link "
    "opens the output of every stage."
)


def write_index(out: Path, entries: Iterable[IndexRow], *, pending: bool, raised: str = "") -> Path:
    waiting = "Stock's columns are still being measured: open this page again in a minute." if pending else ""
    note = " ".join(filter(None, (without_compiler(), raised, waiting, WHAT_IT_IS)))
    report = out / "index.html"
    write_whole(report, html.index("Explorer demo", list(entries), note))
    return report
