"""A program that records a training and goes on until it is killed."""

from __future__ import annotations

import sys

import kit
from tests.training.toy import BATCH, DATA, fit, initial, quick_cluster


def main() -> None:
    """Record to the folder that the command line names."""
    with quick_cluster(1, 2) as cluster:
        kit.train(
            fit,
            initial(),
            DATA,
            steps=10**6,
            batch=BATCH,
            record=kit.Recording(sys.argv[1], store_data=True),
            cluster=cluster,
        ).wait()


if __name__ == "__main__":
    main()
