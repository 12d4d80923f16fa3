"""What records of a template's earlier versions mean in its present one.

A new version says what became of the configs of the one before: most often they are still configs, of other kernels.
Knobs that came with it are filled in by their `before` (`schedules.space`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from int8tune.schedules.errors import UnknownTemplateError
from int8tune.schedules.registry import template_named
from int8tune.schedules.space import Config, Value
from int8tune.schedules.template import Template


def unchanged(config: Mapping[str, Value]) -> Config:
    """The same config."""
    return dict(config)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """From one version of a template to the next.

    Attributes:
        same_kernels: whether a config that was upgraded gives the kernel that it gave before: then its time, and that
            it was right, still apply.
        config: a config of the earlier version as one of the next, None where nothing is like it any more.
    """

    same_kernels: bool
    config: Callable[[Mapping[str, Value]], Config | None] = unchanged


def _arm_conv_2(config: Mapping[str, Value]) -> Config | None:
    """Blocks of channels replaced what `products=c8` was, and have other tiles."""
    return None if config.get("products") == "c8" else dict(config)


# By template and earlier version.
UPGRADES: Mapping[tuple[str, int], Upgrade] = {
    # Rows may be joined, strided images are split in phases: another loop for every config.
    ("x86.amx", 1): Upgrade(same_kernels=False),
    # Scales are bounded where sums are short: another epilogue.
    ("x86.conv", 1): Upgrade(same_kernels=False),
    # The last tile of a row may be narrower.
    ("x86.conv", 2): Upgrade(same_kernels=True),
    ("x86.depthwise", 1): Upgrade(same_kernels=False),
    ("x86.grouped", 1): Upgrade(same_kernels=False),
    # Weights of the next block may be fetched.
    ("x86.grouped", 2): Upgrade(same_kernels=True),
    # Of products other than `c8`, nobody has shown that their code is what it was.
    ("arm.conv", 1): Upgrade(same_kernels=False, config=_arm_conv_2),
    # A step's products are added while the next one's copies are on their way; then: sums are tied to their products.
    ("cuda.wgmma", 1): Upgrade(same_kernels=False),
    ("cuda.wgmma", 2): Upgrade(same_kernels=False),
    # Channels are in another order, in which threads beside each other store whole sectors.
    ("cuda.wgmma", 3): Upgrade(same_kernels=False),
    # What does not exist is requantized and not stored; blocks of a cluster may add their sums.
    ("cuda.wgmma", 4): Upgrade(same_kernels=False),
    ("cuda.mma", 1): Upgrade(same_kernels=False),
    ("cuda.mma", 2): Upgrade(same_kernels=False),
    # Bytes are read as words.
    ("cuda.dp4a", 1): Upgrade(same_kernels=False),
    ("cuda.dp4a", 2): Upgrade(same_kernels=False),
    ("cuda.depthwise", 1): Upgrade(same_kernels=False),
    # Bytes by the float rule are packed in a way of their own; what an epilogue reads is loaded before the products.
    ("cuda.wgmma", 5): Upgrade(same_kernels=False),
    ("cuda.mma", 3): Upgrade(same_kernels=False),
    ("cuda.dp4a", 3): Upgrade(same_kernels=False),
    ("cuda.depthwise", 2): Upgrade(same_kernels=False),
    # Tiles may go down the image.
    ("cuda.depthwise", 3): Upgrade(same_kernels=True),
    ("cuda.first", 1): Upgrade(same_kernels=False),
}


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What a recorded config is today.

    Attributes:
        config: of the present version; whether it is in a layer's space, that space says.
        same_kernels: whether times that were measured then are times of the kernel of today.
    """

    template: Template
    config: Config
    same_kernels: bool


def upgraded(name: str, version: int, config: Mapping[str, Value]) -> Upgraded:
    """A config that was recorded of a version of a template, as one of the present version.

    Raises:
        UnknownTemplateError: the template is not there, or nothing of its present version is like that config.
    """
    template = template_named(name)
    current: Config | None = dict(config)
    same_kernels = True
    for earlier in range(version, template.version):
        upgrade = UPGRADES.get((name, earlier))
        current = upgrade.config(current) if upgrade and current is not None else None
        if upgrade is None or current is None:
            break
        same_kernels = same_kernels and upgrade.same_kernels
    if current is None or version > template.version:
        raise UnknownTemplateError(f"template `{name}` has version {template.version}, not {version}")
    return Upgraded(template, current, same_kernels)


def with_same_kernel(name: str, version: int, config: Mapping[str, Value]) -> Upgraded:
    """A recorded config as one of the present version that gives the kernel which was recorded.

    Raises:
        UnknownTemplateError: the template is not there, or its present version has no such kernel.
    """
    found = upgraded(name, version, config)
    if not found.same_kernels:
        raise UnknownTemplateError(f"template `{name}` has version {found.template.version}, not {version}")
    return found
