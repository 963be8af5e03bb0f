"""`tensorflow.python.lib.io.file_io`: `tf.gfile` by other names."""

from __future__ import annotations

from typing import Any

from kit.tf1.gfile import Copy as copy
from kit.tf1.gfile import DeleteRecursively as delete_recursively
from kit.tf1.gfile import Exists as file_exists
from kit.tf1.gfile import FileStatistics as FileStatistics
from kit.tf1.gfile import GFile as FileIO
from kit.tf1.gfile import Glob
from kit.tf1.gfile import IsDirectory as is_directory
from kit.tf1.gfile import ListDirectory as list_directory
from kit.tf1.gfile import MakeDirs as recursive_create_dir
from kit.tf1.gfile import MkDir as create_dir
from kit.tf1.gfile import Remove as delete_file
from kit.tf1.gfile import Rename as rename
from kit.tf1.gfile import Stat as stat
from kit.tf1.gfile import Walk as walk

__all__ = [
    "FileIO",
    "FileStatistics",
    "copy",
    "create_dir",
    "delete_file",
    "delete_recursively",
    "file_exists",
    "get_matching_files",
    "is_directory",
    "list_directory",
    "read_file_to_string",
    "recursive_create_dir",
    "rename",
    "stat",
    "walk",
    "write_string_to_file",
]


def get_matching_files(filename: Any) -> list[str]:
    """Return the paths that match a pattern, or one of several; sorted."""
    given = filename if isinstance(filename, list | tuple) else [filename]
    return [path for one in given for path in Glob(one)]


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """Return what a file holds: text, or bytes in `binary_mode`."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Write text or bytes to a file, in place of what it held."""
    with FileIO(filename, "wb" if isinstance(file_content, bytes) else "w") as file:
        file.write(file_content)
