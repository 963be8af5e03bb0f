"""The puzzles, in the order in which one meets them."""

from kit.puzzles.catalogue.finding import PUZZLES as PUZZLES
from kit.puzzles.catalogue.finding import find as find

__all__ = ["PUZZLES", "find"]
