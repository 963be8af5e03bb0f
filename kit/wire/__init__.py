"""The wire: bytes between two tasks, with proof of who is at the other end.

From the bottom: `frame` and `message` say what bytes mean, and are pure; `stream` waits
with deadlines; `sockets` and `records` are what carries a stream; `local` is what tasks
of one host share. `handshake` proves who is there, `listening` accepts and dials.
`link`, `rpc`, `handshake/opening` and `listening/acceptor` are what the rest of the
package uses. Nothing here knows arrays.
"""

from kit.wire.frame import Bounds as Bounds
from kit.wire.frame import FrameKind as FrameKind
from kit.wire.frame import Header as Header
from kit.wire.handshake.credentials import Credentials as Credentials
from kit.wire.handshake.messages import Hello as Hello
from kit.wire.handshake.messages import Role as Role
from kit.wire.handshake.opening import connect as connect
from kit.wire.handshake.opening import welcome as welcome
from kit.wire.link import Link as Link
from kit.wire.listening.acceptor import Acceptor as Acceptor
from kit.wire.listening.address import Address as Address
from kit.wire.listening.address import TcpAddress as TcpAddress
from kit.wire.listening.address import UnixAddress as UnixAddress
from kit.wire.listening.address import is_local as is_local
from kit.wire.listening.address import parse_address as parse_address
from kit.wire.listening.dialer import dial as dial
from kit.wire.listening.listener import Listener as Listener
from kit.wire.listening.listener import listen as listen
from kit.wire.local.arena import Arena as Arena
from kit.wire.local.descriptors import recv_fds as recv_fds
from kit.wire.local.descriptors import send_fds as send_fds
from kit.wire.stream import Clock as Clock
from kit.wire.stream import Stream as Stream
