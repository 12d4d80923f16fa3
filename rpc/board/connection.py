"""From a way to a board to an agent that has greeted."""

from __future__ import annotations

from int8tune.rpc.agent.build import is_of_this_version
from int8tune.rpc.agent.link import AgentLink, Stream
from int8tune.rpc.board.agent_route import AgentRoute
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


def connect(route: AgentRoute, deadline: float) -> tuple[AgentLink, dict[str, str]]:
    """A link to the board's agent, and what that says of its board.

    Raises:
        DeviceStartError: the board can't be reached, or is not the one that is known, or has no agent of this version.
    """
    board = route.board
    settings = {
        "cores": ",".join(map(str, board.cores)),
        "threads": board.threads,
        "memory_bytes": board.limits.memory_bytes,
        "disk_bytes": board.limits.disk_bytes,
        "gpu": "" if board.gpu is None else board.gpu,
    }
    try:
        link = AgentLink(_stream(route, deadline))
        try:
            about = link.greet(settings, deadline)
            bundle = about.get("bundle", "")
            # One that this machine starts was compared with what was made for it.
            is_known = route.command or is_of_this_version(bundle, about.get("architecture", ""), board.gpu is not None)
            if not is_known:
                raise NotProvisionedError(
                    f"`{board.name}` has the agent of another version: {bundle[:60] or 'unknown'}"
                )
        except BaseException:
            link.close()
            raise
    except (DeviceLostError, TimeoutError) as error:
        raise _no_agent(route, error) from error
    return link, about


def _no_agent(route: AgentRoute, error: Exception) -> DeviceStartError:
    if route.files:
        return TrackerError(f"the agent that was sent to `{route.board.name}` does not answer: {error}")
    if isinstance(error, LateError | SilentError | TimeoutError):
        limit_s = route.board.limits.connect_s
        what = f"it lets `{route.board.user}` in, and its agent said nothing for {limit_s:g} s (limit: connect_s)"
        return NoAnswerError(f"`{route.board.name}` did not answer in time: {what}")
    return NotProvisionedError(f"no agent answers on `{route.board.name}`: {error}")


def _stream(route: AgentRoute, deadline: float) -> Stream:
    if route.command:
        return PipeStream(route.command)
    if route.files:
        return agent_by_tracker(route.board, route.files, deadline)
    from int8tune.rpc.streams.ssh import SshConnection

    connection = SshConnection.open(route.board, deadline)
    try:
        return connection.start(route.agent_command, deadline)
    except BaseException:
        connection.close()
        raise
