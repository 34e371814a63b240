"""A filter of system calls for ``bubblewrap``, as the kernel reads it (seccomp(2), classic BPF).

Namespaces and limits already keep a program from files, network and memory. The filter takes away what would make these
harder to hold: new processes and threads, which a limit of address space counts one by one, memory that it does not
count, sockets, and calls by which kernels were attacked. They fail with EPERM.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence

from kbnav.errors import UsageError

_NUMBERS: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "shmget": 29, "ptrace": 101,
            "mount": 165, "add_key": 248, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "setns": 308,
            "process_vm_readv": 310, "process_vm_writev": 311, "memfd_create": 319, "bpf": 321, "userfaultfd": 323,
            "io_uring_setup": 425, "clone3": 435, "memfd_secret": 447,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "socket": 198, "socketpair": 199, "clone": 220, "shmget": 194, "ptrace": 117, "mount": 40, "add_key": 217,
            "keyctl": 219, "unshare": 97, "perf_event_open": 241, "setns": 268, "process_vm_readv": 270,
            "process_vm_writev": 271, "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
            "clone3": 435, "memfd_secret": 447,
        },
    ),
}  # fmt: skip
"""By machine: how the kernel names its calling convention, and the numbers of what is refused."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _CONVENTION_AT = 0, 4
_X32 = 0x40000000
"""Numbers from here on are those of another calling convention of x86_64."""


def blocked_calls(machine: str = "") -> bytes:
    """The filter for this machine, or another. Raises UsageError for one whose numbers are not known."""
    machine = machine or platform.machine()
    if machine not in _NUMBERS:
        raise UsageError(f"the sandbox bubblewrap knows {' and '.join(_NUMBERS)}, not {machine}: use the sandbox monty")
    convention, numbers = _NUMBERS[machine]
    return b"".join(struct.pack("=HBBI", *one) for one in _program(convention, sorted(numbers.values())))


def _program(convention: int, numbers: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Operation, jump where true, jump where false, operand; jumps count instructions to leave out."""
    yield _LOAD, 0, 0, _CONVENTION_AT
    yield _EQUAL, 1, 0, convention
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER_AT
    yield _AT_LEAST, len(numbers) + 1, 0, _X32
    for place, number in enumerate(numbers):
        yield _EQUAL, len(numbers) - place, 0, number
    yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _ERRNO | errno.EPERM
