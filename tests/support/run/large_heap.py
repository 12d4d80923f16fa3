"""Spares the run what Python does again and again with all that a collection of thousands of tests has loaded.

Its garbage collector goes through it. And TVM's parser of scripts asks `inspect` for the modules of all calls that it
was reached by: where a file is no module's, `inspect` looks at every module that there is, each time.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Generator
from types import FrameType

import pytest

# Of objects made, less those freed, until the young ones are gone through: 700 as Python comes.
THRESHOLDS = (50_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # also spares forks the copies
        gc.set_threshold(*THRESHOLDS)
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # the first that answers is the last that is asked
def pytest_runtestloop() -> None:
    """Note of the files around all tests that no module is theirs; `inspect` notes only modules that it has found."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if inspect.getmodule(frame) is None:
            inspect.modulesbyfile[frame.f_code.co_filename] = "no module"
        frame = frame.f_back
