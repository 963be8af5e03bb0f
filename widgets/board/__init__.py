"""The board of a training: what it knows, what it shows, and its controls."""

from widgets.board.board import TrafficBoard as TrafficBoard
from widgets.board.board import show as show

__all__ = ["TrafficBoard", "show"]
