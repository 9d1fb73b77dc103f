"""The puzzles of each lesson. A lesson's text, `NAME.md`, stands beside the module of its puzzles."""

from explorer.course.lessons import breaks, capture, decompositions, fusion, guards, lowering, symbolic
from explorer.course.puzzle import Puzzle

LESSONS = {1: capture, 2: symbolic, 3: breaks, 4: guards, 6: decompositions, 9: lowering, 10: fusion}

PUZZLES: dict[str, Puzzle] = {puzzle.id: puzzle for lesson in LESSONS.values() for puzzle in lesson.PUZZLES}
