"""What differs between operating systems, as functions that are the same on all.

`linux.py` is what the project is made for. `posix.py` has the same names for macOS and
the BSDs, by what POSIX has; with less, where its functions say so. On Linux
`KIT_SYSTEM=posix` takes it too, so it can be tried there.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

# A checker of types looks at the system's own.
if sys.platform == "linux" and (
    TYPE_CHECKING or os.environ.get("KIT_SYSTEM") != "posix"
):
    from kit.system.linux import FOLDER as FOLDER
    from kit.system.linux import NEWER_OPTIONS as NEWER_OPTIONS
    from kit.system.linux import RIGHTS as RIGHTS
    from kit.system.linux import Bell as Bell
    from kit.system.linux import HangUps as HangUps
    from kit.system.linux import cpus as cpus
    from kit.system.linux import has_hung_up as has_hung_up
    from kit.system.linux import local_peer_uid as local_peer_uid
    from kit.system.linux import machine_id as machine_id
    from kit.system.linux import new_memory as new_memory
    from kit.system.linux import outlast as outlast
    from kit.system.linux import path_of as path_of
    from kit.system.linux import peer_uid as peer_uid
    from kit.system.linux import pid_namespace as pid_namespace
    from kit.system.linux import ring as ring
    from kit.system.linux import send_unpaced as send_unpaced
    from kit.system.linux import tcp_options as tcp_options
    from kit.system.linux import why_unsafe as why_unsafe
else:
    from kit.system.posix import FOLDER as FOLDER
    from kit.system.posix import NEWER_OPTIONS as NEWER_OPTIONS
    from kit.system.posix import RIGHTS as RIGHTS
    from kit.system.posix import Bell as Bell
    from kit.system.posix import HangUps as HangUps
    from kit.system.posix import cpus as cpus
    from kit.system.posix import has_hung_up as has_hung_up
    from kit.system.posix import local_peer_uid as local_peer_uid
    from kit.system.posix import machine_id as machine_id
    from kit.system.posix import new_memory as new_memory
    from kit.system.posix import outlast as outlast
    from kit.system.posix import path_of as path_of
    from kit.system.posix import peer_uid as peer_uid
    from kit.system.posix import pid_namespace as pid_namespace
    from kit.system.posix import ring as ring
    from kit.system.posix import send_unpaced as send_unpaced
    from kit.system.posix import tcp_options as tcp_options
    from kit.system.posix import why_unsafe as why_unsafe
