"""What can go wrong between the tuner and a device.

RpcError
├── DeviceStartError     the device's server did not start or did not greet in time
├── DeviceLostError      the server ended, or stopped answering
│   └── LeftoverError        a process that a session started could not be ended
├── InventoryError       an inventory can't be read, or has faults; a line for each
├── UnknownBoardError    the inventory has no board of this name
├── ProtocolError        a message that is too long, no JSON, or has a field of the wrong form
└── JournalError         a farm's journal is damaged
"""


class RpcError(Exception):
    """Base of every error this package raises on purpose."""


class DeviceStartError(RpcError):
    """The device's server did not start or did not greet in time."""


class DeviceLostError(RpcError):
    """The server ended, or stopped answering."""


class LeftoverError(DeviceLostError):
    """A process that a session started could not be ended."""


class InventoryError(RpcError):
    """An inventory can't be read, or has faults; a line for each."""


class UnknownBoardError(RpcError):
    """The inventory has no board of this name."""


class ProtocolError(RpcError):
    """A message that is too long, no JSON, or has a field of the wrong form."""


class JournalError(RpcError):
    """A farm's journal is damaged."""
