"""Options of commands that know which answers are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from int8tune.tuner.cli.options import whole_number

TestOption = Annotated[
    str | None, typer.Option("--test", metavar="FILE", help="Compare on these, not on those of --data.")
]
LabelsOption = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Classes of the test samples, .npy or .npz.")
]
TestCountOption = Annotated[
    int | None,
    typer.Option("--test-count", metavar="N", parser=whole_number, help="Test on the first N; all if left out."),
]
