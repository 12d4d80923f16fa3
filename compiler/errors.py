"""What can go wrong between a network and its layers.

CompilerError
├── UnknownNetworkError  a name that no network of this package has
├── BatchError           a batch of more inputs than anybody needs, or of none
├── LayerTableError      a layer table that can't be read, or has faults
├── ModelError           a model that can't be read, or has something that is not supported
│   ├── OpenShapeError   a model with extents that its user must give
│   ├── OpenEndError     a model of which a part has shapes that depend on values
│   └── ObstacleError    a model with operators that nothing computes
├── CompiledModelError   a compiled model that can't be loaded, or can't run here or on these values
├── NoLinkerError        nothing is there to link kernels with
├── NoCudaCompilerError  nothing is there to compile CUDA kernels with
├── CudaCompileError     a CUDA kernel does not compile
└── CompilerDiedError    the process that compiled a model ended before it was done
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_FAULTS_SHOWN = 20


class CompilerError(Exception):
    """Base of every error this package raises on purpose."""


class UnknownNetworkError(CompilerError):
    """A name that no network of this package has."""


class BatchError(CompilerError):
    """A batch of more inputs than anybody needs, or of none."""


class ModelError(CompilerError):
    """A model that can't be read, or has something that is not supported: one line, which names the place."""


class OpenShapeError(ModelError):
    """A model whose inputs have extents that its user must give."""


class OpenEndError(ModelError):
    """A model of which a part has shapes that depend on values: what comes before it may be taken alone."""


class ObstacleError(ModelError):
    """A model with operators that nothing computes, all of which it names, in several lines."""


class CompiledModelError(CompilerError):
    """A compiled model that can't be loaded, or can't run on this CPU or on the values that it was given."""


class NoLinkerError(CompilerError):
    """Nothing is there to link kernels with."""


class NoCudaCompilerError(CompilerError):
    """Nothing is there to compile CUDA kernels with."""


class CudaCompileError(CompilerError):
    """A CUDA kernel does not compile for its architecture."""


class CompilerDiedError(CompilerError):
    """The process that compiled a model ended before it was done."""


class LayerTableError(CompilerError):
    """A layer table that can't be read, or has faults: `faults` has one line for each."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        lines = list(self.faults[:MAX_FAULTS_SHOWN])
        if len(self.faults) > MAX_FAULTS_SHOWN:
            lines.append(f"and {len(self.faults) - MAX_FAULTS_SHOWN} more")
        return "\n".join(lines)
