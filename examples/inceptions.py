"""Inception V1 to V4, for `make_models.py`.

V3 is as in torchvision, the others as in TF-slim; both pad and pool in their own ways.
https://github.com/pytorch/vision/blob/main/torchvision/models/inception.py
https://github.com/tensorflow/models/tree/master/research/slim/nets
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from make_models import Writer


@dataclass(frozen=True, slots=True)
class Step:
    """A convolution with ReLU; with a stride, nothing is padded unless `is_same`: then as TensorFlow does it."""

    channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    unpadded: bool = False
    is_same: bool = False

    @property
    def pads(self) -> list[int] | None:
        if self.is_same and self.stride > 1:
            # Of an even image; the larger half is behind.
            before, behind = ([(extent - 2 + at) // 2 for extent in self.kernel] for at in (0, 1))
            return [*before, *behind]
        return [0, 0, 0, 0] if self.stride > 1 or self.unpadded else None


@dataclass(frozen=True, slots=True)
class Pool:
    """A window of `extent` x `extent`; with `pads`: top, left, bottom, right."""

    operator: str
    stride: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    extent: int = 3


AVERAGE, MAXIMUM = Pool("AveragePool", 1, (1, 1, 1, 1)), Pool("MaxPool", 2)
SAME_MAXIMUM, MAXIMUM_BESIDE = Pool("MaxPool", 2, (0, 0, 1, 1)), Pool("MaxPool", 1, (1, 1, 1, 1))
SMALL_MAXIMUM = Pool("MaxPool", 2, extent=2)
WIDE, HIGH, THREE = (1, 7), (7, 1), (3, 3)
# Pools, convolutions, and convolutions side by side.
Branch = Sequence[Pool | Step | tuple[Step, ...]]
Block = tuple[str, Sequence[Branch]]


def inception_v1(net: Writer) -> str:
    stem: Branch = [Step(64, (7, 7), 2, is_same=True), SAME_MAXIMUM, Step(64), Step(192, THREE), SAME_MAXIMUM]
    return _network(net, stem, _blocks_v1())


def inception_v2(net: Writer) -> str:
    """Its first layer is a depthwise one of eight outputs a channel, without an activation behind it."""
    first = net.conv(net.input, "depthwise", 24, (7, 7), 2, Step(24, (7, 7), 2, is_same=True).pads, groups=3)
    stem: Branch = [Step(64), SAME_MAXIMUM, Step(64), Step(192, THREE), SAME_MAXIMUM]
    return _network(net, stem, _blocks_v2(), first)


def inception_v3(net: Writer) -> str:
    first = [Step(32, THREE, 2), Step(32, THREE, unpadded=True), Step(64, THREE)]
    stem: Branch = [*first, MAXIMUM, Step(80), Step(192, THREE, unpadded=True), MAXIMUM]
    return _network(net, stem, _blocks_v3())


def inception_v4(net: Writer) -> str:
    return _network(net, [Step(32, THREE, 2), Step(32, THREE, unpadded=True), Step(64, THREE)], _blocks_v4())


def _blocks_v1() -> Iterable[Block]:
    widths = {
        "3b": (64, 96, 128, 16, 32, 32),
        "3c": (128, 128, 192, 32, 96, 64),
        "4b": (192, 96, 208, 16, 48, 64),
        "4c": (160, 112, 224, 24, 64, 64),
        "4d": (128, 128, 256, 24, 64, 64),
        "4e": (112, 144, 288, 32, 64, 64),
        "4f": (256, 160, 320, 32, 128, 128),
        "5b": (256, 160, 320, 32, 128, 128),
        "5c": (384, 192, 384, 48, 128, 128),
    }
    for name, (one, before, three, few, other, pooled) in widths.items():
        if name in ("4b", "5b"):
            pool: Branch = [SAME_MAXIMUM if name == "4b" else SMALL_MAXIMUM]
            yield f"MaxPool_{name}", [pool]
        threes = [Step(before), Step(three, THREE)], [Step(few), Step(other, THREE)]
        yield f"Mixed_{name}", [[Step(one)], *threes, [MAXIMUM_BESIDE, Step(pooled)]]


def _blocks_v2() -> Iterable[Block]:
    widths = {
        "3b": (64, 64, 64, 64, 96, 32),
        "3c": (64, 64, 96, 64, 96, 64),
        "4a": (0, 128, 160, 64, 96, 0),
        "4b": (224, 64, 96, 96, 128, 128),
        "4c": (192, 96, 128, 96, 128, 128),
        "4d": (160, 128, 160, 128, 160, 96),
        "4e": (96, 128, 192, 160, 192, 96),
        "5a": (0, 128, 192, 192, 256, 0),
        "5b": (352, 192, 320, 160, 224, 128),
        "5c": (352, 192, 320, 192, 224, 128),
    }
    for name, (one, before, three, few, double, pooled) in widths.items():
        stride = 1 if one else 2
        last = (Step(each, THREE, stride, is_same=True) for each in (three, double))
        threes = [Step(before), next(last)], [Step(few), Step(double, THREE), next(last)]
        if not one:
            yield f"Mixed_{name}", [*threes, [SAME_MAXIMUM]]
            continue
        pool = MAXIMUM_BESIDE if name == "5c" else AVERAGE
        yield f"Mixed_{name}", [[Step(one)], *threes, [pool, Step(pooled)]]


def _blocks_v3() -> Iterable[Block]:
    """InceptionA to InceptionE of the source, each with its branches."""
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        five, three = [Step(48), Step(64, (5, 5))], [Step(64), Step(96, THREE), Step(96, THREE)]
        yield f"Mixed_{name}", [[Step(64)], five, three, [AVERAGE, Step(pooled)]]
    reduced = [Step(64), Step(96, THREE), Step(96, THREE, 2)]
    yield "Mixed_6a", [[Step(384, THREE, 2)], reduced, [MAXIMUM]]
    for name, inner in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        single = [Step(inner), Step(inner, WIDE), Step(192, HIGH)]
        double = [Step(inner), Step(inner, HIGH), Step(inner, WIDE), Step(inner, HIGH), Step(192, WIDE)]
        yield f"Mixed_{name}", [[Step(192)], single, double, [AVERAGE, Step(192)]]
    reduced = [Step(192), Step(192, WIDE), Step(192, HIGH), Step(192, THREE, 2)]
    yield "Mixed_7a", [[Step(192), Step(320, THREE, 2)], reduced, [MAXIMUM]]
    for name in ("7b", "7c"):
        split = (Step(384, (1, 3)), Step(384, (3, 1)))
        deep: Branch = [Step(448), Step(384, THREE), split]
        yield f"Mixed_{name}", [[Step(320)], [Step(384), split], deep, [AVERAGE, Step(192)]]


def _blocks_v4() -> Iterable[Block]:
    yield "Mixed_3a", [[MAXIMUM], [Step(96, THREE, 2)]]
    valid = Step(96, THREE, unpadded=True)
    yield "Mixed_4a", [[Step(64), valid], [Step(64), Step(64, WIDE), Step(64, HIGH), valid]]
    yield "Mixed_5a", [[Step(192, THREE, 2)], [MAXIMUM]]
    for name in "bcde":
        three, double = [Step(64), Step(96, THREE)], [Step(64), Step(96, THREE), Step(96, THREE)]
        yield f"Mixed_5{name}", [[Step(96)], three, double, [AVERAGE, Step(96)]]
    reduced = [Step(192), Step(224, THREE), Step(256, THREE, 2)]
    yield "Mixed_6a", [[Step(384, THREE, 2)], reduced, [MAXIMUM]]
    for name in "bcdefgh":
        single = [Step(192), Step(224, WIDE), Step(256, HIGH)]
        double = [Step(192), Step(192, HIGH), Step(224, WIDE), Step(224, HIGH), Step(256, WIDE)]
        yield f"Mixed_6{name}", [[Step(384)], single, double, [AVERAGE, Step(128)]]
    reduced = [Step(256), Step(256, WIDE), Step(320, HIGH), Step(320, THREE, 2)]
    yield "Mixed_7a", [[Step(192), Step(192, THREE, 2)], reduced, [MAXIMUM]]
    for name in "bcd":
        split = (Step(256, (1, 3)), Step(256, (3, 1)))
        deep: Branch = [Step(384), Step(448, (3, 1)), Step(512, (1, 3)), split]
        yield f"Mixed_7{name}", [[Step(256)], [Step(384), split], deep, [AVERAGE, Step(256)]]


def _network(net: Writer, stem: Branch, blocks: Iterable[Block], data: str = "") -> str:
    data = _branch(net, data or net.input, "stem", stem)
    for name, branches in blocks:
        parts = [_branch(net, data, f"{name}.{index}", branch) for index, branch in enumerate(branches)]
        data = net.concat(parts, name) if len(parts) > 1 else parts[0]
    return data


def _branch(net: Writer, data: str, name: str, branch: Branch) -> str:
    for index, step in enumerate(branch):
        place = f"{name}.{index}"
        if isinstance(step, tuple):
            parts = [_branch(net, data, f"{place}.{part}", [each]) for part, each in enumerate(step)]
            data = net.concat(parts, place)
        elif isinstance(step, Pool):
            counted = {"count_include_pad": 1} if step.operator == "AveragePool" else {}
            data = net.pool(data, place, step.operator, step.stride, step.pads, step.extent, **counted)
        else:
            data = net.relu(net.conv(data, place, step.channels, step.kernel, step.stride, step.pads))
    return data
