"""The puzzles of each lesson. A lesson's text, `NAME.md`, stands beside the module of its puzzles."""

from explorer.course.lessons import (
    before,
    breaks,
    capture,
    decompositions,
    fusion,
    guards,
    lowering,
    memory,
    partition,
    passes,
    printers,
    shapes,
    symbolic,
)
from explorer.course.puzzle import Puzzle

LESSONS = (
    before, capture, symbolic, breaks, guards, shapes, decompositions, partition, passes, lowering, fusion, printers,
    memory,
)  # fmt: skip

PUZZLES: dict[str, Puzzle] = {puzzle.id: puzzle for lesson in LESSONS for puzzle in lesson.PUZZLES}
