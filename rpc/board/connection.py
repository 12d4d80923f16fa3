"""From a way to a board to an agent that has greeted."""

from __future__ import annotations

from int8tune.rpc.agent.build import is_of_this_version
from int8tune.rpc.agent.link import AgentLink, Stream
from int8tune.rpc.board.way import Way
from int8tune.rpc.errors import (
    DeviceLostError,
    DeviceStartError,
    LateError,
    NoAnswerError,
    NotProvisionedError,
    SilentError,
    TrackerError,
)
from int8tune.rpc.streams.pipe import PipeStream
from int8tune.rpc.tracker.take_over import agent_by_tracker


def connect(way: Way, deadline: float) -> tuple[AgentLink, dict[str, str]]:
    """A link to the board's agent, and what that says of its board.

    Raises:
        DeviceStartError: the board can't be reached, or is not the one that is known, or has no agent of this version.
    """
    board = way.board
    settings = {
        "cores": ",".join(map(str, board.cores)),
        "threads": board.threads,
        "memory_bytes": board.limits.memory_bytes,
        "disk_bytes": board.limits.disk_bytes,
        "gpu": "" if board.gpu is None else board.gpu,
    }
    try:
        link = AgentLink(_stream(way, deadline))
        try:
            about = link.greet(settings, deadline)
            bundle = about.get("bundle", "")
            # One that this machine starts was compared with what was made for it.
            is_known = way.command or is_of_this_version(bundle, about.get("architecture", ""), board.gpu is not None)
            if not is_known:
                raise NotProvisionedError(
                    f"`{board.name}` has the agent of another version: {bundle[:60] or 'unknown'}"
                )
        except BaseException:
            link.close()
            raise
    except (DeviceLostError, TimeoutError) as error:
        raise _no_agent(way, error) from error
    return link, about


def _no_agent(way: Way, error: Exception) -> DeviceStartError:
    if way.files:
        return TrackerError(f"the agent that was sent to `{way.board.name}` does not answer: {error}")
    if isinstance(error, LateError | SilentError | TimeoutError):
        limit_s = way.board.limits.connect_s
        what = f"it lets `{way.board.user}` in, and its agent said nothing for {limit_s:g} s (limit: connect_s)"
        return NoAnswerError(f"`{way.board.name}` did not answer in time: {what}")
    return NotProvisionedError(f"no agent answers on `{way.board.name}`: {error}")


def _stream(way: Way, deadline: float) -> Stream:
    if way.command:
        return PipeStream(way.command)
    if way.files:
        return agent_by_tracker(way.board, way.files, deadline)
    from int8tune.rpc.streams.ssh import SshConnection

    connection = SshConnection.open(way.board, deadline)
    try:
        return connection.start(way.agent_command, deadline)
    except BaseException:
        connection.close()
        raise
