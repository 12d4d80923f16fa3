"""Constants beside an executable: what is written is what TVM packs, byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from int8tune.compiler.toolchain.stand_ins import LEAST_BYTES, StandIns

tvm = pytest.importorskip("tvm", reason="needs TVM")

RNG = np.random.default_rng(0)
# Two that are equal are one; a small one and one of bool stay in the executable.
ARRAYS = [
    RNG.integers(0, 256, (3, LEAST_BYTES), np.uint8),
    RNG.integers(-128, 128, (LEAST_BYTES,), np.int8),
    RNG.normal(size=(17, 1, LEAST_BYTES // 16)).astype(np.float32),
    RNG.integers(-9, 9, (2, 2, LEAST_BYTES)),
    RNG.normal(size=LEAST_BYTES).astype(np.float16),
    np.zeros(5, np.int32),
    np.ones(LEAST_BYTES, np.bool_),
    RNG.normal(size=LEAST_BYTES)[::-1],
]


def packed(arrays: list[Any]) -> bytes:
    import tvm_ffi
    from tvm import relax

    builder = relax.BlockBuilder()
    with builder.function("constants", []):
        constants = [relax.const(np.ascontiguousarray(array), str(array.dtype)) for array in arrays]
        builder.emit_func_output(relax.Tuple(constants))
    executable = relax.build(builder.get(), target=tvm.target.Target("llvm"))
    found: bytes = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")(executable.mod).numpy().tobytes()
    return found


@pytest.mark.parametrize("chosen", [ARRAYS, ARRAYS[:1], ARRAYS[5:6], [*ARRAYS, ARRAYS[1].copy()]])
def test_what_is_written_is_what_tvm_packs(chosen: list[Any]) -> None:
    stand_ins = StandIns()
    short = packed([stand_ins.of(array) for array in chosen])
    assert len(short) < LEAST_BYTES + 8192
    whole = packed(chosen)
    assert b"".join(stand_ins.restored(short)) == whole


def test_equal_arrays_have_one_stand_in_and_views_of_other_types_have_others() -> None:
    stand_ins, array = StandIns(), ARRAYS[1]
    one, other = stand_ins.of(array), stand_ins.of(array.view(np.uint8))
    assert np.array_equal(one, stand_ins.of(array.copy()))
    assert not np.array_equal(one, other)
    assert stand_ins.of(ARRAYS[5]) is ARRAYS[5]


def test_another_form_is_refused() -> None:
    stand_ins = StandIns()
    short = packed([stand_ins.of(ARRAYS[0])])
    for changed in (short[:-1], b"\0" + short[1:], short.replace(b"relax.VMExecutable", b"relax.VMOtherThing")):
        with pytest.raises(RuntimeError, match="in another form"):
            list(stand_ins.restored(changed))
    place = short.index(stand_ins.of(ARRAYS[0]).tobytes())
    with pytest.raises(RuntimeError, match="constants in another form"):
        list(stand_ins.restored(short[: place - 4] + b"\1" + short[place - 3 :]))
