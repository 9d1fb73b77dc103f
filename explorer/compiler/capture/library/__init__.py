"""Rules for Python's builtins and its standard library, by what they are about. Importing it registers them."""

from explorer.compiler.capture.library import containers, functions, numbers, surroundings

__all__ = ["containers", "functions", "numbers", "surroundings"]
