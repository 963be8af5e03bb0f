"""The program that forks the processes of puzzles; see `kit.forking`.

It is not part of `kit.puzzles.process`: a module that is run as a program is loaded a
second time as soon as anything is unpickled that refers to it by its name.
"""

from __future__ import annotations

import sys

from kit import forking
from kit.puzzles.process import host

if __name__ == "__main__":
    pipe = forking.serve(int(sys.argv[1]), ["kit.puzzles"])
    if pipe is not None:
        host(pipe)
        forking.leave()
