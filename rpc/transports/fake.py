"""A device without a device, for tests and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceLostError
from int8tune.rpc.request import Capabilities, Reply, Request

FAKE_CAPABILITIES = Capabilities(
    architecture="x86_64",
    cpu="fake",
    llvm_cpu="cascadelake",
    llvm_triple="x86_64-unknown-linux-gnu",
    features=frozenset({"avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"}),
    cores=(0,),
    cache_bytes={"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20},
    environment={"cpu": "fake"},
)


class FakeTransport:
    """Answers with `answer(request)`, except where `faults` has something else for this request.

    Attributes:
        requests: those it was asked, in order.
    """

    def __init__(
        self,
        answer: Callable[[Request], Reply],
        faults: Iterable[Outcome | None] = (),
        capabilities: Capabilities = FAKE_CAPABILITIES,
    ) -> None:
        """`faults`: one item per request, in order; None and the time after the last item are faultless."""
        self.requests: list[Request] = []
        self._answer = answer
        self._faults = iter(faults)
        self._capabilities = capabilities
        self._started = False

    def start(self) -> Capabilities:
        self._started = True
        return self._capabilities

    def run(self, request: Request) -> Reply:
        if not self._started:
            raise DeviceLostError("the fake device is not started")
        self.requests.append(request)
        fault = next(self._faults, None)
        if fault is None:
            return self._answer(request)
        return Reply(fault, error_class="Injected", error=f"injected: {fault.value}")

    def cancel(self) -> None:
        """Nothing takes long here."""

    def close(self) -> None:
        self._started = False
