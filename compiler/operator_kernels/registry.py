"""Which kernel computes which kind of operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.graph import Graph, Kind, Operator
from compiler.operator_kernels.kernel import OperatorKernel
from schedules.target import Target

KERNELS: Mapping[Kind, Callable[[Graph, Operator, Target], OperatorKernel]] = {}
