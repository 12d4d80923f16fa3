"""Leave to use AMX: Linux gives tile registers to processes that ask (arch_prctl, ARCH_REQ_XCOMP_PERM)."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

TILE_FEATURES = "amx_"
"""How Linux begins the names of what needs that leave."""

ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.EOPNOTSUPP
_X86_64 = 0xC000003E
# Offsets in `struct seccomp_data`: the call's number, the architecture, the first argument.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
# (operation, instructions to skip if equal, if not, operand)
_FILTER = (
    (_LOAD, 0, 0, _ARCHITECTURE),
    (_JUMP_IF_EQUAL, 0, 5, _X86_64),
    (_LOAD, 0, 0, _NUMBER),
    (_JUMP_IF_EQUAL, 0, 3, ARCH_PRCTL),
    (_LOAD, 0, 0, _FIRST_ARGUMENT),
    (_JUMP_IF_EQUAL, 0, 1, REQUEST_PERMISSION),
    (_RETURN, 0, 0, _FAIL),
    (_RETURN, 0, 0, _ALLOW),
)


def allow_tile_registers() -> bool:
    """Ask for this process and its future children; whether they may use AMX.

    Source: Linux, Documentation/arch/x86/xstate.rst.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0)


def deny_tile_registers() -> bool:
    """Let no request for AMX of this process and its future children succeed; whether that could be done.

    They then do what they do on a CPU without it. Source: seccomp(2), with a filter in classic BPF.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in _FILTER)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(_FILTER), ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    refused = libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER_MODE, program)
    return bool(refused == 0)
