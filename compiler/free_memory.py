"""Memory that nothing uses any more, given back before more is needed: a model is read and written in large pieces."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Give free memory back to the system, where the C library can (glibc): it keeps it for later otherwise."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
