"""Large `.npy` files of which most is zeros: what is zero is a hole, which takes neither time to write nor disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# A page of memory, and a block of most file systems: a smaller hole saves nothing.
BLOCK_BYTES = 4096


def save_with_holes(file: Path, array: npt.NDArray[Any]) -> None:
    """Write what `np.save` writes, and no block that is zero as a whole."""
    with file.open("wb") as out:
        np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(array))
        start, content = out.tell(), np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        out.truncate(start + content.size)
        whole = content.size // BLOCK_BYTES * BLOCK_BYTES
        blocks = content[:whole].reshape(-1, BLOCK_BYTES)
        for block in np.flatnonzero(blocks.any(axis=1)):
            out.seek(start + int(block) * BLOCK_BYTES)
            out.write(blocks[block].data)
        out.seek(start + whole)
        out.write(content[whole:].data)
