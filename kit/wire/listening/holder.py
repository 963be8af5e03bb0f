"""Who holds a TCP port, as far as this user may see it.

Only for messages. `psutil` is imported when the question is asked.
"""

from __future__ import annotations


def port_holder(port: int) -> str:
    """Return " by process 123 (python)", or "" when it cannot be told. About 10 ms."""
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            heard = getattr(connection.laddr, "port", None)  # () where it has none
            if listens and heard == port and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f" by process {connection.pid} ({name})"
    except psutil.Error:
        pass
    return ""
