"""A program that records a training and goes on until it is killed."""

from __future__ import annotations

import sys

import kit
from tests.recording.toy_training import begin
from tests.training.toy import quick_cluster


def main() -> None:
    """Record to the folder that the command line names."""
    with quick_cluster(1, 2) as cluster:
        wanted = kit.Recording(sys.argv[1], store_data=True)
        begin(cluster, wanted, steps=10**6).wait()


if __name__ == "__main__":
    main()
