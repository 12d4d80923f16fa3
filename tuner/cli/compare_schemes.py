"""`int8tune compare-schemes`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from int8tune.tuner.cli import completing
from int8tune.tuner.cli.bench import RunsOption
from int8tune.tuner.cli.calibration import (
    CountOption,
    DataOption,
    DivideOption,
    FloatOnnxArgument,
    MeanOption,
    StdOption,
    numbers,
)
from int8tune.tuner.cli.labels import LabelsOption, TestCountOption, TestOption
from int8tune.tuner.cli.options import (
    DEFAULT_INVENTORY,
    DEFAULT_RESULTS,
    DebugOption,
    Format,
    FormatOption,
    InventoryOption,
    RecordsFolderOption,
    ThreadsOption,
)
from int8tune.tuner.cli.output import emit, emit_json, say
from int8tune.tuner.cli.quantize import SkipOption

SchemesOption = Annotated[
    str, typer.Option("--schemes", metavar="HOW,...", help="Ranges by these; by all if left out.", show_default=False)
]
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights", metavar="FORM,...", help="Forms of weights: per-channel,per-tensor or one.", show_default=False
    ),
]
TypesOption = Annotated[
    str, typer.Option("--activations", metavar="TYPE,...", help="Types of data: u8,s8 or one.", show_default=False)
]
AgainstOption = Annotated[
    str, typer.Option("--against", metavar="NAME,...", help="Others: onnxruntime, openvino, nncf.", show_default=False)
]
PlainOption = Annotated[bool, typer.Option("--plain", help="No equalizing, rounding, bias correction.")]
BestOption = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="PROFILE", autocompletion=completing.targets, help="Target profile; the best if left out."
    ),
]
DevicesOption = Annotated[
    str,
    typer.Option(
        "--devices", metavar="NAMES", autocompletion=completing.boards, help="Boards that run the libraries, too."
    ),
]
PageOption = Annotated[
    Path | None, typer.Option("--report", metavar="OUT", help="Write it, too: .html with histograms, .md, .csv, ...")
]


def compare_schemes(
    model: FloatOnnxArgument,
    data: DataOption = None,
    test: TestOption = None,
    labels: LabelsOption = None,
    schemes: SchemesOption = "max,percentile:99.99,mse,kl",
    weights: WeightsOption = "per-channel",
    activations: TypesOption = "u8",
    against: AgainstOption = "",
    page: PageOption = None,
    skip: SkipOption = None,
    plain: PlainOption = False,
    count: CountOption = None,
    test_count: TestCountOption = None,
    divide: DivideOption = 1.0,
    mean: MeanOption = "",
    std: StdOption = "",
    results: RecordsFolderOption = DEFAULT_RESULTS,
    target: BestOption = None,
    threads: ThreadsOption = 1,
    runs: RunsOption = 20,
    devices: DevicesOption = "",
    inventory: InventoryOption = DEFAULT_INVENTORY,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Compare schemes of quantization: accuracy and speed.

    Example: int8tune compare-schemes m.onnx --data d.npz
    """
    from int8tune.results.report.schemes import schemes_as_dict
    from int8tune.tuner.api.schemes import compare_schemes as compared
    from int8tune.tuner.cli.waiting import waiting

    if data is None:
        raise typer.BadParameter("samples are needed: --data FILE")
    with waiting("compare-schemes") as report:
        found = compared(
            model,
            data,
            test=test,
            labels=labels,
            schemes=schemes,
            weights=weights,
            activations=activations,
            against=against,
            skip=skip or (),
            equalize=not plain,
            round_weights=not plain,
            bias_correction=not plain,
            count=count,
            test_count=test_count,
            divide=divide,
            mean=numbers(mean),
            std=numbers(std),
            page=page,
            results=results,
            target=target,
            threads=threads,
            runs=runs,
            devices=devices,
            inventory=inventory,
            report=report,
        )
    if form is Format.JSON:
        emit_json(schemes_as_dict(found.summary))
    else:
        emit(str(found))
    if page is not None:
        say(f"report of {len(found.summary.rows)} schemes  {page}")
