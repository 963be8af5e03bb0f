"""The program that forks the processes of puzzles; see `kit.forking`."""

from __future__ import annotations

import sys

from kit import forking
from kit.puzzles.process import host

if __name__ == "__main__":
    pipe = forking.serve(int(sys.argv[1]), ["kit.puzzles"])
    if pipe is not None:
        host(pipe)
