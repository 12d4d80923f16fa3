"""`int8tune quantize`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli.calibration import (
    CountOption,
    DataOption,
    DivideOption,
    FloatModelArgument,
    MeanOption,
    StdOption,
    TrustOption,
    number,
    numbers,
)
from int8tune.tuner.cli.choosing import (
    ChoiceDeviceOption,
    ChoiceInventoryOption,
    ChoiceResultsOption,
    ChoiceTimeOption,
    ChooseOption,
    DropOption,
    choose_and_show,
    require_choice,
)
from int8tune.tuner.cli.labels import LabelsOption, TestOption
from int8tune.tuner.cli.options import DebugOption, Format, FormatOption
from int8tune.tuner.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.quantize.comparison import Distance
    from int8tune.tuner.api.quantizing import QuantizedModel

OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The quantized model to write.")]
CalibrationOption = Annotated[
    str,
    typer.Option(
        "--calibration", metavar="HOW", help="Rule: mse (default), max, percentile[:p], kl, global.", show_default=False
    ),
]
PerTensorOption = Annotated[bool, typer.Option("--per-tensor", help="One scale for all weights of an operator.")]
ActivationsOption = Annotated[str, typer.Option("--activations", metavar="TYPE", help="Type of data: u8 or s8.")]
SymmetricOption = Annotated[bool, typer.Option("--symmetric", help="Data has its zero point in the middle.")]
ZeroPointsOption = Annotated[
    bool, typer.Option("--weight-zero-points", help="Weights have zero points; with --per-tensor.")
]
SkipOption = Annotated[
    list[str] | None, typer.Option("--skip", metavar="NAME", help="Leave this operator in float; several times.")
]
EqualizeOption = Annotated[bool, typer.Option("--no-equalize", help="Leave channels as they are.")]
RoundOption = Annotated[bool, typer.Option("--no-round-weights", help="Round weights to the nearest.")]
BiasOption = Annotated[bool, typer.Option("--no-bias-correction", help="Leave biases as they are.")]
SmoothOption = Annotated[
    float | None, typer.Option("--smooth", metavar="A", parser=number, help="Smooth what dense layers read: 0 to 1.")
]
ShareOption = Annotated[bool, typer.Option("--share-scales", help="One scale for all of an Add or a Concat.")]
RangesOption = Annotated[
    Path | None, typer.Option("--ranges", metavar="FILE", help="What `profile` wrote, in place of --data.")
]


def quantize(
    model: FloatModelArgument,
    output: OutputOption,
    data: DataOption = None,
    calibration: CalibrationOption = "mse",
    per_tensor: PerTensorOption = False,
    activations: ActivationsOption = "u8",
    symmetric: SymmetricOption = False,
    weight_zero_points: ZeroPointsOption = False,
    skip: SkipOption = None,
    no_equalize: EqualizeOption = False,
    no_round_weights: RoundOption = False,
    no_bias_correction: BiasOption = False,
    smooth: SmoothOption = None,
    share_scales: ShareOption = False,
    ranges: RangesOption = None,
    choose: ChooseOption = False,
    max_drop: DropOption = None,
    test: TestOption = None,
    labels: LabelsOption = None,
    time_s: ChoiceTimeOption = None,
    results: ChoiceResultsOption = None,
    device: ChoiceDeviceOption = None,
    inventory: ChoiceInventoryOption = None,
    count: CountOption = None,
    divide: DivideOption = 1.0,
    mean: MeanOption = "",
    std: StdOption = "",
    trust: TrustOption = False,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Quantize a float model to 8 bits, as QDQ ONNX.

    Example: int8tune quantize model.onnx --data samples.npz -o model.int8.onnx
    """
    from int8tune.tuner.api.quantizing import quantize as quantized
    from int8tune.tuner.cli.waiting import waiting

    options: dict[str, Any] = {
        "output": output,
        "calibration": calibration,
        "per_tensor": per_tensor,
        "activations": activations,
        "symmetric": symmetric,
        "weight_zero_points": weight_zero_points,
        "skip": skip or (),
        "equalize": not no_equalize,
        "round_weights": not no_round_weights,
        "bias_correction": not no_bias_correction,
        "smooth": smooth,
        "share_scales": share_scales,
        "trust": trust,
        "count": count,
        "divide": divide,
        "mean": numbers(mean),
        "std": numbers(std),
    }
    of_choice = {"max_drop": max_drop, "test": test, "labels": labels, "time_s": time_s, "results": results}
    of_choice |= {"device": device, "inventory": inventory}
    require_choice(choose, of_choice)
    if choose:
        choose_and_show(model, data, ranges, form, **options, **of_choice)
        return
    with waiting("quantize") as report:
        made = quantized(model, data, ranges=ranges, report=report, **options)
    if form is Format.JSON:
        emit_json(_as_json(made))
        return
    rule = f"{calibration} ({made.rule})" if calibration == "global" else calibration
    emit(f"{output}: {len(made.thresholds):,} tensors by {rule}, {made.ranges.samples:,} samples")
    if made.distance is not None:
        say(in_words(made.distance))


def _as_json(made: QuantizedModel) -> dict[str, Any]:
    from dataclasses import asdict

    about = {"file": str(made.file), "model_sha256": made.ranges.model_sha256, "samples": made.ranges.samples}
    about |= {"calibrated_by": made.rule}
    thresholds = {name: {"low": each.low, "high": each.high} for name, each in made.thresholds.items()}
    apart = None if made.distance is None else asdict(made.distance)
    return about | {
        "thresholds": thresholds,
        "folded": dict(made.gone),
        "folded_operators": dict(made.folded),
        "calibration": apart,
    }


def in_words(distance: Distance) -> str:
    """How far a quantized model is from its float model, in a line."""
    decibels = "equal" if distance.sqnr_db is None else f"SQNR {distance.sqnr_db:.1f} dB"
    return f"on the samples, beside the float model: {decibels}, the same answer for {distance.agreement:.1%}"
