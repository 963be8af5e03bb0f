"""Checkpoints on disk: whole or absent, every byte under a digest.

Numpy and files only; nothing here knows of tasks, graphs or trainings.
"""

from __future__ import annotations

from kit.checkpoint.files import FILES as FILES
from kit.checkpoint.files import Files as Files
from kit.checkpoint.folder import Folder as Folder
from kit.checkpoint.folder import FoundCheckpoint as FoundCheckpoint
from kit.checkpoint.folder import load as load
from kit.checkpoint.manifest import Manifest as Manifest
from kit.checkpoint.manifest import TensorEntry as TensorEntry
from kit.checkpoint.manifest import differences as differences
from kit.checkpoint.manifest import graph_hash as graph_hash
from kit.checkpoint.manifest import shard_from_plain as shard_from_plain
from kit.checkpoint.pieces import SUFFIX as SUFFIX
from kit.checkpoint.pieces import Piece as Piece
from kit.checkpoint.pieces import ShardEntry as ShardEntry
from kit.checkpoint.pieces import write_shard as write_shard
from kit.checkpoint.reading import read_manifest as read_manifest
