"""Networks with layers in several forms: written, compiled and run, and timed beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from int8tune.compiler.errors import CompilerError, NoLinkerError
from int8tune.compiler.program import Array
from int8tune.compiler.report import Report
from int8tune.quantize.errors import QuantizeError
from int8tune.quantize.forms import Form
from int8tune.quantize.mixed import MixedModel
from int8tune.quantize.samples.base import Samples
from int8tune.rpc.request import Timing
from int8tune.schedules.errors import WorkloadError
from int8tune.tuner.errors import BenchError
from int8tune.tuner.models.on_board import BoardPlace
from int8tune.tuner.models.race import Entry, Result
from int8tune.tuner.schemes.library import Library, compiled_library, first_sample, outputs_of
from int8tune.tuner.schemes.place import Place
from int8tune.tuner.schemes.timing import time_in_turn

# What a network can fail by: such a one is left out. Where nothing links, all would.
FAILURES = (QuantizeError, CompilerError, WorkloadError, BenchError)


@dataclass(frozen=True, slots=True)
class Network:
    """A network with layers in several forms, and its compiled library.

    Attributes:
        forms: of layers that are not computed as usual, by their names.
        proto: an `onnx.ModelProto`.
    """

    forms: Mapping[str, Form]
    proto: Any
    library: Library


@dataclass(slots=True)
class NetworkBuilder:
    """Where networks of a model are made.

    Attributes:
        tests: samples that networks are run on; the first of them is what they are timed with.
        board: whose times count; None: those of the place.
    """

    model: MixedModel
    tests: Samples
    place: Place
    report: Report
    board: BoardPlace | None = None
    _made: int = 0

    def network(self, forms: Mapping[str, Form], is_refined: bool = True) -> Network:
        """Write and compile a network.

        Raises:
            NoLinkerError: nothing is there to link with.
            QuantizeError, CompilerError, WorkloadError: it can't be written or compiled.
        """
        self._made += 1
        path = self.place.folder / f"network-{self._made}.onnx"
        proto = self.model.network(forms, is_refined)
        path.write_bytes(proto.SerializeToString(deterministic=True))
        return Network(forms, proto, compiled_library(self.place, path, f"network {self._made}"))

    def outputs(self, network: Network) -> Array:
        """What a network's library gives for the tests as its first output.

        Raises:
            CalibrationError: the tests don't fit the model.
            BenchError: its process failed.
        """
        return outputs_of(self.place, network.library.entry, network.library.graph, self.tests)[0]

    def times(self, networks: Sequence[Network], timing: Timing) -> tuple[Sequence[Result], str]:
        """How long networks take, timed in turn; and what makes the times doubtful.

        Raises:
            BenchError: the first one failed.
        """
        if self.board is not None:
            entries = [network.library.entry for network in networks]
            turns = self.turns_on(self.board, networks, timing)
            return [_result(*each) for each in zip(entries, turns, strict=True)], ""
        sample = first_sample(networks[0].library.graph, self.tests)
        found = time_in_turn(self.place, [each.library.entry for each in networks], sample, timing)
        return found.results, found.disturbance

    def turns_on(self, board: BoardPlace, networks: Sequence[Network], timing: Timing) -> list[tuple[float, ...] | str]:
        """Seconds of a run of each network on a board, timed in turn; or why there are none.

        Raises:
            DeviceStartError: the board can't be reached any more.
        """
        graphs = {f"network {number}": network.library.graph for number, network in enumerate(networks, 1)}
        found = board.run(graphs, first_sample(networks[0].library.graph, self.tests), timing, self.report)
        return [found.times_s.get(name) or found.failures[name] for name in graphs]


def _result(entry: Entry, turns: tuple[float, ...] | str) -> Result:
    return Result(entry, "", failure=turns) if isinstance(turns, str) else Result(entry, "", turns)


def network_or_why(builder: NetworkBuilder, forms: Mapping[str, Form], is_refined: bool = True) -> Network | str:
    """A network, or why there is none.

    Raises:
        NoLinkerError: nothing is there to link with.
    """
    try:
        return builder.network(forms, is_refined)
    except NoLinkerError:
        raise
    except FAILURES as error:
        return " ".join(str(error).split())
