"""`int8tune sensitivity`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from int8tune.tuner.cli.calibration import (
    CountOption,
    DataOption,
    DivideOption,
    FloatModelArgument,
    MeanOption,
    StdOption,
    TrustOption,
    numbers,
)
from int8tune.tuner.cli.labels import LabelsOption, TestOption
from int8tune.tuner.cli.options import DebugOption, Format, FormatOption
from int8tune.tuner.cli.output import aligned, emit, emit_json, say
from int8tune.tuner.cli.quantize import (
    ActivationsOption,
    CalibrationOption,
    EqualizeOption,
    PerTensorOption,
    SkipOption,
    in_words,
)

if TYPE_CHECKING:
    from int8tune.quantize.sensitivity import LayerSensitivity
    from int8tune.tuner.api.sensitivity import SensitivityResult


def sensitivity(
    model: FloatModelArgument,
    data: DataOption = None,
    test: TestOption = None,
    labels: LabelsOption = None,
    calibration: CalibrationOption = "mse",
    per_tensor: PerTensorOption = False,
    activations: ActivationsOption = "u8",
    no_equalize: EqualizeOption = False,
    skip: SkipOption = None,
    count: CountOption = None,
    divide: DivideOption = 1.0,
    mean: MeanOption = "",
    std: StdOption = "",
    trust: TrustOption = False,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show which layers of a float model 8 bits hurt.

    Each is quantized alone, and everything but it; models are compared with the float one.

    Example: int8tune sensitivity model.onnx --data samples.npz
    """
    from int8tune.tuner.api.sensitivity import sensitivity as found_by
    from int8tune.tuner.cli.waiting import waiting

    if data is None:
        raise typer.BadParameter("samples are needed: --data FILE")
    with waiting("sensitivity") as report:
        found = found_by(
            model,
            data,
            test=test,
            labels=labels,
            calibration=calibration,
            per_tensor=per_tensor,
            activations=activations,
            equalize=not no_equalize,
            skip=skip or (),
            count=count,
            divide=divide,
            mean=numbers(mean),
            std=numbers(std),
            trust=trust,
            report=report,
        )
    if form is Format.JSON:
        _emit_json(found)
        return
    compared = ("same answer", *(["top-1"] if labels is not None else []))
    head = ("alone, dB", *compared, "all but it, dB", *compared, "along, dB", "operator", "layer")
    emit(aligned([head, *map(_cells, found.layers)], numbers=range(len(head) - 2)))
    say(f"all of it quantized, {in_words(found.whole)}{_top1_in_words(found)}")
    say(f"`{found.worst.name}` costs most alone; to leave it in float: int8tune quantize ... --skip {found.worst.name}")


def _cells(each: LayerSensitivity) -> tuple[str, ...]:
    apart = [
        text
        for distance in (each.alone, each.all_but_it)
        for text in (
            _in_db(distance.sqnr_db),
            f"{distance.agreement:.1%}",
            *([] if distance.top1 is None else [f"{distance.top1:.1%}"]),
        )
    ]
    return (*apart, _in_db(each.along_db), each.operator, each.name)


def _top1_in_words(found: SensitivityResult) -> str:
    if found.whole.top1 is None or found.float_top1 is None:
        return ""
    return f"; top-1 {found.whole.top1:.1%}, of the float model {found.float_top1.estimate:.1%}"


def _in_db(sqnr_db: float | None) -> str:
    return "-" if sqnr_db is None else f"{sqnr_db:.1f}"


def _emit_json(found: SensitivityResult) -> None:
    from dataclasses import asdict

    float_top1 = None if found.float_top1 is None else found.float_top1.estimate
    emit_json(
        {"float_top1": float_top1, "whole": asdict(found.whole), "layers": [asdict(each) for each in found.layers]}
    )
