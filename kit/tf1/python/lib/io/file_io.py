"""`tensorflow.python.lib.io.file_io`: `tf.gfile` by other names."""

from __future__ import annotations

from typing import Any

from kit.tf1 import gfile
from kit.tf1.gfile import FileStatistics as FileStatistics
from kit.tf1.gfile import Glob

copy = gfile.Copy
delete_recursively = gfile.DeleteRecursively
file_exists = gfile.Exists
FileIO = gfile.GFile
is_directory = gfile.IsDirectory
list_directory = gfile.ListDirectory
recursive_create_dir = gfile.MakeDirs
create_dir = gfile.MkDir
delete_file = gfile.Remove
rename = gfile.Rename
stat = gfile.Stat
walk = gfile.Walk


def get_matching_files(filename: Any) -> list[str]:
    """Return the paths that match a pattern, or one of several; sorted."""
    patterns = filename if isinstance(filename, list | tuple) else [filename]
    return [path for pattern in patterns for path in Glob(pattern)]


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """Return what a file holds: text, or bytes in `binary_mode`."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Write text or bytes to a file, in place of what it held."""
    with FileIO(filename, "wb" if isinstance(file_content, bytes) else "w") as file:
        file.write(file_content)
