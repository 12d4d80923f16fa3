"""GPUs: what their architectures allow a kernel. Numbers are those of NVIDIA's CUDA C++ Programming Guide, chapter
"Compute Capabilities", table "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

# A device with a GPU has a feature for each architecture whose code it runs, such as `cuda_sm_80`, and one that counts
# its multiprocessors, such as `cuda_multiprocessors_108`.
GPU_FEATURE = "cuda_"
_COUNT = f"{GPU_FEATURE}multiprocessors_"
WARP = 32
# Of a register, and of a bank of shared memory.
WORD_BYTES = 4
# Threads that multiply matrices together on Hopper.
GROUP = 4 * WARP
# Registers are given to a warp in units of so many; a thread may have no more than `MOST_REGISTERS`.
REGISTER_UNIT, MOST_REGISTERS = 256, 255
MOST_THREADS = 1024
# Along the second and the third axis of a grid; the first one may have 2^31 - 1 blocks.
MOST_BLOCKS_BESIDE = 65535
REGISTERS_OF_A_MULTIPROCESSOR = 65536
# More than any GPU has.
MOST_MULTIPROCESSORS = 9999


@dataclass(frozen=True, slots=True)
class Gpu:
    """The limits of an architecture.

    Attributes:
        profile: the target's name.
        arch: as NVIDIA's compilers call it.
        threads, blocks: that a multiprocessor has at once.
        shared_bytes: shared memory of a multiprocessor; `block_shared_bytes`: of it a block may have.
        reserved_bytes: of shared memory for each block beside its own.
        has_async_copy: whether copies to shared memory go around registers (`cp.async`).
        multiprocessors: of the board that code is for, or of a usual one with this architecture.
        board: that usual one.
        memory_bytes: of its memory, that each multiprocessor can read or write in a cycle.
    """

    profile: str
    arch: str
    threads: int
    blocks: int
    shared_bytes: int
    block_shared_bytes: int
    reserved_bytes: int
    has_async_copy: bool
    multiprocessors: int
    board: str
    memory_bytes: float

    @property
    def feature(self) -> str:
        """What a device says that it has, among its features."""
        return f"{GPU_FEATURE}{self.arch.removesuffix('a')}"

    @property
    def has_group_products(self) -> bool:
        """Whether four warps multiply matrices from shared memory (`wgmma`)."""
        return self.arch == "sm_90a"

    @property
    def has_clusters(self) -> bool:
        """Whether blocks of a cluster read each other's shared memory; they came with Hopper."""
        return int(self.arch.removeprefix("sm_").rstrip("a")) >= 90

    def resident_blocks(self, threads: int, shared_bytes: int, registers: int) -> int:
        """Blocks that a multiprocessor has at once.

        Args:
            threads, shared_bytes: of a block.
            registers: of a thread.
        """
        warps = -(-threads // WARP)
        of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
        return min(
            self.blocks,
            self.threads // (warps * WARP),
            self.shared_bytes // (shared_bytes + self.reserved_bytes) if shared_bytes else self.blocks,
            REGISTERS_OF_A_MULTIPROCESSOR // (of_warp * warps),
        )


_KIB = 1024
# Bandwidths are those of NVIDIA's data sheets, over multiprocessors and boost clock: T4 300 GB/s, 40 at 1.59 GHz; A100
# 1,555, 108 at 1.41; A10 600, 72 at 1.695; L4 300, 58 at 2.04; H100 SXM 3,350, 132 at 1.83; B200 8,000, 148 at 1.86;
# RTX 5090 1,792, 170 at 2.407.
GPUS: Sequence[Gpu] = (
    Gpu("cuda-sm75", "sm_75", 1024, 16, 64 * _KIB, 64 * _KIB, 0, False, 40, "T4", 4.7),
    Gpu("cuda-sm80", "sm_80", 2048, 32, 164 * _KIB, 163 * _KIB, _KIB, True, 108, "A100", 10.2),
    Gpu("cuda-sm86", "sm_86", 1536, 16, 100 * _KIB, 99 * _KIB, _KIB, True, 72, "A10", 4.9),
    Gpu("cuda-sm89", "sm_89", 1536, 24, 100 * _KIB, 99 * _KIB, _KIB, True, 58, "L4", 2.5),
    # The `a`: with what later architectures don't have.
    Gpu("cuda-sm90", "sm_90a", 2048, 32, 228 * _KIB, 227 * _KIB, _KIB, True, 132, "H100", 13.9),
    Gpu("cuda-sm100", "sm_100", 2048, 32, 228 * _KIB, 227 * _KIB, _KIB, True, 148, "B200", 29.1),
    Gpu("cuda-sm120", "sm_120", 1536, 24, 100 * _KIB, 99 * _KIB, _KIB, True, 170, "RTX 5090", 4.4),
)
GPU_PROFILES = {gpu.profile: gpu for gpu in GPUS}


def multiprocessors_among(features: Set[str]) -> int | None:
    """How many multiprocessors a device has, by its features; None where it does not say."""
    counts = [int(feature.removeprefix(_COUNT)) for feature in features if feature.startswith(_COUNT)]
    return counts[0] if counts else None
