"""What Python's standard library has on Linux, and not on macOS."""

from __future__ import annotations

NAMES = {
    "os": (
        "eventfd eventfd_read eventfd_write EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE "
        "memfd_create MFD_CLOEXEC MFD_ALLOW_SEALING O_PATH O_TMPFILE O_DIRECT "
        "pidfd_open P_PIDFD sched_getaffinity sched_setaffinity sched_getscheduler "
        "copy_file_range splice setns unshare getrandom fdatasync posix_fallocate "
        "posix_fadvise"
    ),
    "signal": "pidfd_send_signal sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX",
    "select": (
        "epoll EPOLLIN EPOLLOUT EPOLLHUP EPOLLRDHUP EPOLLONESHOT EPOLLET POLLRDHUP"
    ),
    "fcntl": "F_ADD_SEALS F_GET_SEALS F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_GROW",
    "socket": (
        "MSG_CMSG_CLOEXEC SO_PEERCRED AF_NETLINK SOCK_CLOEXEC SOCK_NONBLOCK TCP_INFO "
        "TCP_KEEPIDLE TCP_USER_TIMEOUT TCP_CONGESTION"
    ),
    "resource": "prlimit RLIMIT_MSGQUEUE RLIMIT_SIGPENDING",
}
