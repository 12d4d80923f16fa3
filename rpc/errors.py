"""What can go wrong between the tuner and a device.

RpcError
├── DeviceStartError     the device's server did not start or did not greet in time
│   ├── UnreachableError     nobody answers at the board's address, or no sshd does
│   ├── NoAnswerError        the board lets the user in, and what it starts there says nothing
│   ├── NoSshError           paramiko is not installed
│   ├── HostKeyError         the board shows another host key than the one that is known, or none is known
│   ├── LoginError           the board does not take the user's key, or the key can't be used
│   ├── NotProvisionedError  the board has no agent, or another one than this version's
│   ├── NoGpuError           the board's GPU can't be used, or there is none, or no driver
│   ├── TrackerError         no tracker answers, or it has no free server of the board's key, or that can't be used
│   └── WrongDeviceError     a bundle is for another device than this one
├── DeviceLostError      the server ended, or stopped answering
│   ├── LateError            the board did not answer before its deadline
│   ├── SilentError          the board says nothing and takes nothing any more: it is frozen, or its link is dead
│   └── LeftoverError        a process that a session started could not be ended
├── MachineLimitError    this process may have too few files open, or too few addresses
├── SessionEndedError    a board's session ended before it answered
├── ProvisionError       a board can't be provisioned or released
│   └── DownloadError        a library that boards need is not here, and can't be downloaded
├── InventoryError       an inventory can't be read, or has faults; a line for each
├── UnknownBoardError    the inventory has no board of this name
├── ProtocolError        a message that is too long, no JSON, or has a field of the wrong form
├── BundleError          a bundle is damaged, or was changed, or is of another version
├── BundleResultsError   a file of results can't be used: it is another bundle's, or somebody is writing it
├── JournalError         a farm's journal is damaged
├── StatusFileError      what a campaign wrote of a board can't be read
└── EstimateError        a kernel's cycles can't be estimated: a tool is missing, or the code is none it can follow
"""


class RpcError(Exception):
    """Base of every error this package raises on purpose."""


class DeviceStartError(RpcError):
    """The device's server did not start or did not greet in time."""


class UnreachableError(DeviceStartError):
    """Nobody answers at the board's address, or no sshd does."""


class NoAnswerError(DeviceStartError):
    """The board lets the user in, and what it starts there says nothing."""


class NoSshError(DeviceStartError):
    """paramiko is not installed."""


class HostKeyError(DeviceStartError):
    """The board shows another host key than the one that is known, or none is known."""


class LoginError(DeviceStartError):
    """The board does not take the user's key, or the key can't be used."""


class NotProvisionedError(DeviceStartError):
    """The board has no agent, or another one than this version's."""


class NoGpuError(DeviceStartError):
    """The board's GPU can't be used, or there is none, or no driver for it."""


class TrackerError(DeviceStartError):
    """No tracker answers, or it has no free server of the board's key, or that server can't be used."""


class WrongDeviceError(DeviceStartError):
    """A bundle is for another device than this one."""


class DeviceLostError(RpcError):
    """The server ended, or stopped answering."""


class LateError(DeviceLostError):
    """The board did not answer before its deadline."""


class SilentError(DeviceLostError):
    """The board says nothing and takes nothing any more: it is frozen, or its link is dead."""


class LeftoverError(DeviceLostError):
    """A process that a session started could not be ended."""


class MachineLimitError(RpcError):
    """This process may have too few files open, or too few addresses, for a device to be measured."""


class SessionEndedError(RpcError):
    """A board's session ended before it answered: `how` is the agent's word for it, `errors` what it wrote last."""

    def __init__(self, how: str, errors: str) -> None:
        super().__init__(how)
        self.how = how
        self.errors = errors


class ProvisionError(RpcError):
    """A board can't be provisioned or released."""


class DownloadError(ProvisionError):
    """A library that boards need is not here, and can't be downloaded."""


class InventoryError(RpcError):
    """An inventory can't be read, or has faults; a line for each."""


class UnknownBoardError(RpcError):
    """The inventory has no board of this name."""


class ProtocolError(RpcError):
    """A message that is too long, no JSON, or has a field of the wrong form."""


class BundleError(RpcError):
    """A bundle is damaged, or was changed, or is of another version."""


class BundleResultsError(RpcError):
    """A file of results can't be used: it is another bundle's, or somebody is writing it."""


class JournalError(RpcError):
    """A farm's journal is damaged."""


class StatusFileError(RpcError):
    """What a campaign wrote of a board can't be read."""


class EstimateError(RpcError):
    """A kernel's cycles can't be estimated: a tool is missing, or the code is none that can be followed."""
