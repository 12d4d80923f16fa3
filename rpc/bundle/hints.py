"""What each failure of a bundle means to a person: an exit code, and what to type next."""

from __future__ import annotations

from int8tune.rpc.errors import (
    BundleError,
    BundleResultsError,
    DeviceLostError,
    DeviceStartError,
    NoGpuError,
    RpcError,
    WrongDeviceError,
)

DONE, FAILED, USAGE, NO_DEVICE, INTERRUPTED = 0, 1, 2, 4, 130

HINTS: dict[type[Exception], tuple[int, str]] = {
    BundleError: (FAILED, "copy it here again, or make it again: int8tune bundle make NETWORK"),
    BundleResultsError: (FAILED, "write others elsewhere: add --folder DIR"),
    WrongDeviceError: (NO_DEVICE, "make one for this device: int8tune bundle make --target PROFILE"),
    NoGpuError: (NO_DEVICE, "see the driver and its GPUs: nvidia-smi"),
    DeviceStartError: (NO_DEVICE, "its folder must allow programs to run, and have room: add --folder DIR"),
    DeviceLostError: (NO_DEVICE, "run the same command again, it goes on where it was"),
    RpcError: (FAILED, "run the same command again, it goes on where it was"),
    OSError: (FAILED, "choose a folder that can be written and has room: add --folder DIR"),
}
"""The exit code of each failure, and what to type next."""
