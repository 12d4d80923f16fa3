"""What can go wrong between the tuner and a device.

RpcError
├── DeviceStartError     the device's server did not start or did not greet in time
├── DeviceLostError      the server ended, or stopped answering
│   └── LeftoverError        a process that a session started could not be ended
├── ProtocolError        a message that is too long, no JSON, or has a field of the wrong form
└── EstimateError        a kernel's cycles can't be estimated: a tool is missing, or the code is none it can follow
"""


class RpcError(Exception):
    """Base of every error this package raises on purpose."""


class DeviceStartError(RpcError):
    """The device's server did not start or did not greet in time."""


class DeviceLostError(RpcError):
    """The server ended, or stopped answering."""


class LeftoverError(DeviceLostError):
    """A process that a session started could not be ended."""


class ProtocolError(RpcError):
    """A message that is too long, no JSON, or has a field of the wrong form."""


class EstimateError(RpcError):
    """A kernel's cycles can't be estimated: a tool is missing, or the code is none that can be followed."""
