"""The puzzles, from the first one to the hardest."""

from kit.puzzles.catalogue.finding import PUZZLES as PUZZLES
from kit.puzzles.catalogue.finding import find as find

__all__ = ["PUZZLES", "find"]
