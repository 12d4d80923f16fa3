"""Models of other libraries, quantized in the usual ways: how many compile, and how many are right.

    python examples/zoo.py make zoo                  # zoo/FORM/MODEL.onnx, random weights; needs torch and what follows
    python examples/zoo.py table zoo -o zoo/table.md # compiles each, compares its outputs with ONNX Runtime's

`make` has an environment of its own: `pip install torch torchvision timm transformers onnx onnxruntime`; the form of
NNCF is made where `nncf` is installed. `table` needs `int8tune[models,oracle,peers]`. A second run of either makes only
what is missing. `--only TEXT` takes models or forms whose names have the text.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 900
OPSET = 17
CALIBRATION_SAMPLES = 4
LAYERS = ["Conv", "MatMul", "Gemm"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the zoo.

    Attributes:
        family: `cnn`, `transformer`, `dense` (segmentation, detection and other outputs per pixel) or `audio`.
        make: builds it; modules are imported there.
        shape: of its input; token numbers where `tokens` are said.
        tokens: the size of its vocabulary, 0 where its input are numbers.
    """

    family: str
    make: Callable[[], Any]
    shape: tuple[int, ...] = (1, 3, 64, 64)
    tokens: int = 0


def torchvision(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        from torchvision.models import get_model

        return get_model(name, weights=None, **options)

    return make


def timm(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        from timm import create_model

        return create_model(name, pretrained=False, **options)

    return make


def transformers(name: str, **config: Any) -> Callable[[], Any]:
    """A model of two blocks, as `NameConfig` and `NameModel` of the package make it."""

    def make() -> Any:
        import transformers as package

        made = getattr(package, f"{name}Config")(attn_implementation="eager", **config)
        return getattr(package, f"{name}Model")(made)

    return make


CNNS = [
    "alexnet vgg11_bn resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 mobilenet_v2 mobilenet_v3_small",
    "mobilenet_v3_large efficientnet_b0 efficientnet_v2_s mnasnet0_5 mnasnet1_0 shufflenet_v2_x0_5 shufflenet_v2_x1_0",
    "squeezenet1_0 squeezenet1_1 densenet121 regnet_y_400mf regnet_x_400mf convnext_tiny",
]
OF_TIMM = [
    "efficientnet_lite0 mobilenetv4_conv_small tf_mixnet_s ghostnet_100 repvgg_a0 hardcorenas_a fbnetc_100",
    "spnasnet_100 rexnet_100 resnest14d res2net50_26w_4s seresnet18 skresnet18 dla34 hrnet_w18_small",
    "cspresnet50 darknet53 vovnet39a selecsls42b dpn48b xception41 tresnet_m gernet_s nf_regnet_b0",
    "convnext_atto convnextv2_atto edgenext_xx_small mobileone_s0 fastvit_t8 inception_v4 lcnet_050 tinynet_e",
    "regnetz_005 resnetv2_50",
]
TRANSFORMERS_OF_TIMM = (
    "vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 gmlp_ti16_224 pit_ti_224 poolformerv2_s12 levit_128s"
    " tiny_vit_5m_224 swin_tiny_patch4_window7_224 mobilevit_xxs efficientformer_l1 cait_xxs24_224 xcit_nano_12_p16_224"
)
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TOKENS = (1, 32)


def entries() -> Iterator[tuple[str, Entry]]:
    for name in " ".join(CNNS).split():
        yield name, Entry("cnn", torchvision(name))
    yield "googlenet", Entry("cnn", torchvision("googlenet", aux_logits=False, init_weights=False))
    yield (
        "inception_v3",
        Entry("cnn", torchvision("inception_v3", aux_logits=False, init_weights=False), (1, 3, 96, 96)),
    )
    for name in " ".join(OF_TIMM).split():
        yield name, Entry("cnn", timm(name))
    for name in TRANSFORMERS_OF_TIMM.split():
        yield name, Entry("transformer", timm(name), (1, 3, 224, 224))
    yield "vit_b_16", Entry("transformer", torchvision("vit_b_16", image_size=64))
    yield "swin_v2_t", Entry("transformer", torchvision("swin_v2_t"))
    yield "maxvit_t", Entry("transformer", torchvision("maxvit_t"), (1, 3, 224, 224))
    for name in ("Bert", "Roberta", "Electra", "MPNet"):
        yield name.lower(), Entry("transformer", transformers(name, **SMALL), TOKENS, tokens=1000)
    small = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
    yield "distilbert", Entry("transformer", transformers("DistilBert", **small), TOKENS, tokens=1000)
    yield "gpt2", Entry("transformer", transformers("GPT2", n_embd=64, n_layer=2, n_head=4), TOKENS, tokens=1000)
    for name in ("lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large", "fcn_resnet50"):
        yield name, Entry("dense", torchvision(name, weights_backbone=None), (1, 3, 96, 96))
    yield "unet_mobilenet", Entry("dense", unet)
    yield "espcn", Entry("dense", super_resolution, (1, 1, 48, 48))
    audio = {**SMALL, "conv_dim": (32,) * 3, "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2)}
    more = {"num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    yield "wav2vec2", Entry("audio", transformers("Wav2Vec2", **audio, **more), (1, 4000))
    yield "kws_ds_cnn", Entry("audio", keyword_spotting, (1, 1, 49, 10))
    yield "tcn", Entry("audio", temporal_convolutions, (1, 40, 98))


def unet() -> Any:
    import torch
    from torch import nn

    def block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())

    class UNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.down, self.deep, self.up = block(3, 16), block(16, 32), nn.ConvTranspose2d(32, 16, 2, stride=2)
            self.last, self.pool = nn.Sequential(block(32, 16), nn.Conv2d(16, 4, 1)), nn.MaxPool2d(2)

        def forward(self, x: Any) -> Any:
            wide = self.down(x)
            return self.last(torch.cat([wide, self.up(self.deep(self.pool(wide)))], 1))

    return UNet()


def super_resolution() -> Any:
    from torch import nn

    first = [nn.Conv2d(1, 32, 5, padding=2), nn.PReLU(32), nn.Conv2d(32, 16, 3, padding=1), nn.Tanh()]
    return nn.Sequential(*first, nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3))


def keyword_spotting() -> Any:
    from torch import nn

    layers: list[nn.Module] = [nn.Conv2d(1, 64, (10, 4), stride=2, padding=(5, 1)), nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))


def temporal_convolutions() -> Any:
    from torch import nn

    layers: list[nn.Module] = []
    for index, width in enumerate((40, 48, 48)):
        layers += [nn.Conv1d(width, 48, 9, padding=4 << index, dilation=1 << index), nn.BatchNorm1d(48), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(48, 12))


def export(entry: Entry, path: Path) -> None:
    """The float model, with the mean and deviation of random data in its normalizations."""
    import torch

    torch.manual_seed(0)
    shape = entry.shape
    model = entry.make()
    data = torch.randint(0, entry.tokens, shape) if entry.tokens else torch.randn(shape)
    if not entry.tokens:
        with torch.no_grad():
            model.train()(torch.randn(4, *shape[1:]))
    first = of_one_output(model.eval()).eval()
    torch.onnx.export(first, (data,), str(path), opset_version=OPSET, input_names=["x"], dynamo=False)


def of_one_output(model: Any) -> Any:
    """A model whose output is one tensor: the first one, of what others are packed in."""
    from torch import nn

    class First(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            made = self.model(x)
            while not hasattr(made, "shape"):
                made = next(iter(made.values())) if isinstance(made, Mapping) else made[0]
            return made

    return First()


def static(**options: Any) -> Callable[[Path, Path, Entry], None]:
    def quantize(source: Path, output: Path, entry: Entry) -> None:
        from onnxruntime import quantization

        types = {key: getattr(quantization.QuantType, options.get(key, usual)) for key, usual in TYPES.items()}
        quantization.quantize_static(
            source,
            output,
            Samples(entry),
            quant_format=getattr(quantization.QuantFormat, options.get("format", "QDQ")),
            per_channel=options.get("per_channel", True),
            op_types_to_quantize=options.get("operators"),
            **types,
        )

    return quantize


TYPES = {"activation_type": "QUInt8", "weight_type": "QInt8"}


class Samples:
    """Random inputs to calibrate with, as ONNX Runtime reads them."""

    def __init__(self, entry: Entry) -> None:
        self._samples = iter(samples(entry))

    def get_next(self) -> dict[str, Any] | None:
        return next(self._samples, None)


def samples(entry: Entry) -> Iterator[dict[str, Any]]:
    import numpy as np

    rng = np.random.default_rng(0)
    for _ in range(CALIBRATION_SAMPLES):
        if entry.tokens:
            yield {"x": rng.integers(0, entry.tokens, entry.shape)}
        else:
            yield {"x": rng.standard_normal(entry.shape, np.float32)}


def dynamic(source: Path, output: Path, _: Entry) -> None:
    from onnxruntime import quantization

    # ONNX Runtime has no ConvInteger for signed weights.
    quantization.quantize_dynamic(source, output, weight_type=quantization.QuantType.QUInt8)


def by_nncf(source: Path, output: Path, entry: Entry) -> None:
    import nncf
    import onnx

    model = onnx.load(source)
    onnx.save(nncf.quantize(model, nncf.Dataset(list(samples(entry))), subset_size=CALIBRATION_SAMPLES), output)


FORMS: dict[str, Callable[[Path, Path, Entry], None]] = {
    "u8s8": static(),
    "s8s8": static(activation_type="QInt8"),
    "u8u8": static(weight_type="QUInt8", per_channel=False),
    "qoperator": static(format="QOperator"),
    "layers": static(operators=LAYERS),
    "dynamic": dynamic,
    "nncf": by_nncf,
}


def make(folder: Path, only: str) -> None:
    """Write what is missing; what can't be made is said, and the rest goes on."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    for name, entry in entries():
        wanted = {form: folder / form / f"{name}.onnx" for form in FORMS if only in f"{form}/{name}"}
        if all(path.exists() for path in wanted.values()):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            exported, prepared = Path(scratch) / "float.onnx", Path(scratch) / "prepared.onnx"
            if not _tried(f"{name}: export", lambda: export(entry, exported)):  # noqa: B023
                continue
            if not _tried(f"{name}: shapes", lambda: quant_pre_process(exported, prepared)):  # noqa: B023
                continue
            for form, path in wanted.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    _tried(f"{name}: {form}", lambda: FORMS[form](prepared, path, entry))  # noqa: B023


def _tried(what: str, step: Callable[[], None]) -> bool:
    try:
        step()
    except Exception as error:  # whatever the other libraries raise says something about this model only
        lines = str(error).strip().splitlines() or [type(error).__name__]
        print(f"{what}: not made: {lines[0][:200]}", file=sys.stderr)
        return False
    print(what, file=sys.stderr)
    return True


def table(folder: Path, only: str, output: Path | None) -> None:
    """Judge each file of `make` once, and print what was found of all."""
    families = {name: entry.family for name, entry in entries()}
    kept = folder / "judged.jsonl"
    rows = {row["file"]: row for row in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    for file in sorted(folder.glob("*/*.onnx")):
        name = f"{file.parent.name}/{file.stem}"
        if only not in name or name in rows:
            continue
        rows[name] = {"file": name, "family": families.get(file.stem, ""), **judged(file)}
        with kept.open("a") as lines:
            lines.write(json.dumps(rows[name]) + "\n")
        print(line_of(rows[name]), file=sys.stderr)
    text = "\n".join(report([row for name, row in sorted(rows.items()) if only in name]))
    print(text) if output is None else output.write_text(text + "\n")


def judged(file: Path) -> dict[str, Any]:
    started = time.monotonic()
    found = _int8tune("accuracy", file, "--count", "4")
    if isinstance(found, str):
        # A file that the tool which wrote it can't run says nothing of the compiler.
        return {"error": found, "is_valid": "onnxruntime failed" not in found}
    outputs = found["outputs"]
    return {
        "int8_share": found["int8_share"],
        "floats": sum(found["floats"].values()),
        "values": sum(each["values"] for each in outputs),
        "differing": sum(each["differing"] for each in outputs),
        "largest": max((each["largest"] for each in outputs), default=0.0),
        "sqnr_db": _least(each["sqnr_db"] for each in outputs),
        "itself_db": _least(each["itself_db"] for each in outputs),
        "judged_s": round(time.monotonic() - started, 1),
    }


def _least(decibels: Iterable[float | None]) -> float | None:
    return min((each for each in decibels if each is not None), default=None)


def _int8tune(*arguments: object) -> dict[str, Any] | str:
    """What a command printed, or its error."""
    command = [sys.executable, "-m", "int8tune", *map(str, arguments), "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"took more than {LIMIT_S} s"
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")] or done.stderr.splitlines()
        return " | ".join(errors)[:400] or f"ended with {done.returncode}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line_of(row: Mapping[str, Any]) -> str:
    if "error" in row:
        answer = "no" if row.get("is_valid", True) else "-"
        return f"| {row['file']} | | {answer} | | | | {re.sub('[|]', '/', row['error'])} |"
    share, sqnr = "" if row["int8_share"] is None else f"{row['int8_share']:.0%}", row["sqnr_db"]
    differing = f"{row['differing']} of {row['values']:,}"
    itself = row.get("itself_db")
    far, own = ("" if each is None else f"{each:.0f} dB" for each in (sqnr, itself))
    return f"| {row['file']} | {share} | yes | {row['floats']} | {differing} | {far} | {own} |"


def report(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each form, then one for each file."""
    yield "| form | files | compile | equal in every value | least SQNR, dB |"
    yield "|-|-|-|-|-|"
    for form in FORMS:
        own = [row for row in rows if row["file"].startswith(f"{form}/") and row.get("is_valid", True)]
        right = [row for row in own if "error" not in row]
        equal = sum(1 for row in right if row["differing"] == 0)
        least = _least(row["sqnr_db"] for row in right)
        if own:
            yield f"| {form} | {len(own)} | {len(right)} | {equal} | {'' if least is None else f'{least:.0f}'} |"
    yield "\n| model | int8 share of multiply-adds | compiles | in float | values that differ | SQNR | its own |"
    yield "|-|-|-|-|-|-|-|"
    yield from map(line_of, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("make", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models or forms whose FORM/NAME has this text")
    parser.add_argument("-o", "--output", type=Path, help="file for the table; printed if left out")
    options = parser.parse_args()
    if options.what == "make":
        make(options.folder, options.only)
    else:
        table(options.folder, options.only, options.output)


if __name__ == "__main__":
    main()
