"""The contract that every template in the registry keeps: exact kernels, readable refusals, the same in any process."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from int8tune.schedules.errors import ConfigError
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.registry import TEMPLATES
from int8tune.schedules.space import Value
from int8tune.schedules.target import PROFILES, Target
from int8tune.schedules.template import Template
from int8tune.schedules.workload import DepthwiseConv2d, Workload, parse_workload
from tests.support.kernels.kernels import build, compile_function
from tests.support.kernels.layers import ODD, PLAIN, workloads
from tests.support.run.probes import any_target, host_target
from tests.support.run.thinned import chosen, one_in, representatives

few = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@st.composite
def configs(draw: st.DrawFn, template: Template, workload: Workload, target: Target) -> Mapping[str, Value]:
    seed = draw(st.integers(0, 2**16))
    return template.space(workload, target).sample(np.random.default_rng(seed))


def short(value: Template | str) -> str:
    """A parameter in a test's name."""
    return value if isinstance(value, str) else value.name


def profile_of(template: Template) -> str:
    """The profile that needs least of those on which the template takes any layer."""
    names = [profile.name for profile in sorted(PROFILES, key=lambda known: len(known.needs))]
    for profile in (*names, "cuda-sm80", "cuda-sm90"):
        target = any_target(profile)
        if any(template.rejects(parse_workload(key), target) is None for key in PLAIN.values()):
            return profile
    raise AssertionError(f"no profile for {template.name}")


def odd_layers() -> list[tuple[Template, str]]:
    """Those of `ODD` that each template takes, the oddest first: their keys say most."""
    targets = [(template, any_target(profile_of(template))) for template in TEMPLATES]
    return [
        (template, key)
        for template, target in targets
        for key in sorted(ODD, key=len, reverse=True)
        if template.rejects(parse_workload(key), target) is None
    ]


def name_for_a_cpu(layer: tuple[Template, str]) -> list[str]:
    """The template's; kernels of GPUs take a second each, and are quick in `test_cuda.py`."""
    template, _ = layer
    return [] if template.name.startswith("cuda.") else [template.name]


def operators_of(template: Template) -> list[str]:
    target = any_target(profile_of(template))
    return [op for op, key in PLAIN.items() if template.rejects(parse_workload(key), target) is None]


@pytest.fixture(params=TEMPLATES, ids=lambda template: template.name)
def template(request: pytest.FixtureRequest) -> Template:
    found: Template = request.param
    return found


@pytest.fixture(scope="module")
def digests_elsewhere() -> list[str]:
    """The digests of all templates' kernels, from another process with other hashes."""
    code = "from tests.schedules import test_templates as t; print(*map(t.digest, t.TEMPLATES))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, check=True, timeout=60, env=environment, capture_output=True, text=True)
    return run.stdout.split()


class TestContract:
    """What holds for every template; one that is added to the registry is tested with it."""

    def test_has_a_name_of_its_own_and_a_version(self, template: Template) -> None:
        assert re.fullmatch(r"[a-z0-9]+(\.[a-z0-9_]+)+", template.name)
        assert [other.name for other in TEMPLATES].count(template.name) == 1
        assert template.version >= 1

    def test_rejects_with_a_reason(self, template: Template) -> None:
        for profile in (*(known.name for known in PROFILES), *GPU_PROFILES):
            for key in (*PLAIN.values(), *ODD):
                rejection = template.rejects(parse_workload(key), any_target(profile))
                assert rejection is None or re.fullmatch(r"(takes|needs) .*[^.\n]", rejection.reason)

    def test_default_is_in_the_space(self, template: Template) -> None:
        target = any_target(profile_of(template))
        for key in (*PLAIN.values(), *ODD):
            workload = parse_workload(key)
            if template.rejects(workload, target) is None:
                space = template.space(workload, target)
                assert space.fault(space.default) is None

    def test_apply_refuses_a_config_outside_the_space(self, template: Template) -> None:
        workload, target = self.plain(template)
        default = template.space(workload, target).default
        for config in ({}, {**default, "tile_columns": 1000}, {**default, "no_such_knob": 1}):
            with pytest.raises(ConfigError):
                template.apply(workload, target, config)

    @pytest.mark.parametrize(("template", "key"), representatives(odd_layers(), name_for_a_cpu), ids=short)
    def test_odd_layers_are_exact(self, template: Template, key: str) -> None:
        assert build(parse_workload(key), host_target(profile_of(template)), template=template).wrong_cases() == []

    # Generic kernels are quick at the corners of their spaces or on threads.
    @pytest.mark.parametrize(
        "template", chosen(TEMPLATES, lambda each: not each.name.startswith("generic.")), ids=short
    )
    @pytest.mark.parametrize(
        "examples", [3, pytest.param(8, marks=pytest.mark.thorough), pytest.param(40, marks=pytest.mark.slow)]
    )
    @pytest.mark.matrix(at_most=5)
    def test_drawn_layers_and_configs_are_exact(self, template: Template, examples: int) -> None:
        target = host_target(profile_of(template))
        layers = st.sampled_from(operators_of(template)).flatmap(workloads)

        # Those of an emulated GPU take a compiler.
        @settings(few, max_examples=examples if target.gpu is None else examples // 3)
        @given(draw=st.data())
        def check(draw: st.DataObject) -> None:
            workload = draw.draw(layers.filter(lambda layer: template.rejects(layer, target) is None))
            config = draw.draw(configs(template, workload, target))
            assert build(workload, target, config, template).wrong_cases() == []

        check()

    # The drawn configs of a GPU stay quick: those at corners take a compiler and an emulator, too.
    @pytest.mark.parametrize("template", chosen(TEMPLATES, lambda each: not each.name.startswith("cuda.")), ids=short)
    @pytest.mark.parametrize("corner", one_in(2, [-1, 0]))
    @pytest.mark.parametrize("key", one_in(2, PLAIN.values()))
    @pytest.mark.matrix(at_most=12)
    def test_configs_are_exact_at_the_corners_of_the_space(self, template: Template, key: str, corner: int) -> None:
        workload, target = parse_workload(key), host_target(profile_of(template))
        if template.rejects(workload, target) is None:
            config = list(template.space(workload, target))[corner]
            assert build(workload, target, config, template).wrong_cases() == []

    @pytest.mark.parametrize("samples", [1, pytest.param(4, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("key", [*one_in(8, PLAIN.values()), *chosen(ODD, lambda _: False)])
    @pytest.mark.matrix(at_most=3)
    def test_threads_share_the_work_exactly(self, template: Template, key: str, samples: int) -> None:
        workload, target = parse_workload(key), replace(host_target(profile_of(template)), threads=3)
        if target.gpu is not None or template.rejects(workload, target) is not None:
            return
        space = template.space(workload, target)
        # Spaces of one size are sampled alike: each layer has a seed of its own.
        rng = np.random.default_rng([*PLAIN.values(), *ODD].index(key))
        # The first config has the smallest tiles, so that there is something to share.
        configs = [
            {**config, "threads": 3} if "threads" in config else config
            for config in (space.default, next(iter(space)), *(space.sample(rng) for _ in range(samples - 1)))
        ]
        kernels = [build(workload, target, config, template) for config in configs]
        assert [kernel.wrong_cases() for kernel in kernels] == [[]] * len(kernels)
        if key in PLAIN.values():  # a config whose only tile has the whole layer leaves nothing to share
            assert any("TVMBackendParallelLaunch" in kernel.assembly for kernel in kernels)

    @pytest.mark.parametrize("key", one_in(16, ODD))
    @pytest.mark.matrix(at_most=20)
    def test_vectorized_loops_stay_vectors(self, template: Template, key: str) -> None:
        """Where TVM finds a condition or an operator that has no vector form, it makes a scalar loop without a word."""
        workload, target = parse_workload(key), any_target(profile_of(template))
        if target.gpu is None and template.rejects(workload, target) is None and not repeats_values(workload):
            assert re.search(r"for .*_s in ", vectorized_text(template, workload, target)) is None

    @pytest.mark.thorough
    def test_kernel_is_the_same_in_another_process(self, template: Template, digests_elsewhere: list[str]) -> None:
        # The second one in this process: nothing is left over from the first.
        assert [digest(template), digest(template)] == 2 * [digests_elsewhere[TEMPLATES.index(template)]]

    @staticmethod
    def plain(template: Template) -> tuple[Workload, Target]:
        return parse_workload(PLAIN[operators_of(template)[0]]), any_target(profile_of(template))


def repeats_values(workload: Workload) -> bool:
    """Whether the image is copied with each value several times, one by one."""
    return isinstance(workload, DepthwiseConv2d) and workload.multiplier > 1


def vectorized_text(template: Template, workload: Workload, target: Target) -> str:
    """The TIR of the default kernel after TVM has vectorized its loops; scalar ones in their place end in `_s`."""
    function = template.apply(workload, target, template.space(workload, target).default).function
    texts: list[str] = []

    @tvm.instrument.pass_instrument
    class Watch:
        def run_after_pass(self, module: Any, info: Any) -> None:
            if info.name == "tirx.VectorizeLoop":
                texts.append(module.script())

    with tvm.transform.PassContext(instruments=[Watch()]):
        compile_function(function, target)
    (text,) = texts
    return text


def digest(template: Template) -> str:
    """A hash of several configs' kernels."""
    workload, target = TestContract.plain(template)
    texts = hashlib.sha256()
    space = template.space(workload, target)
    rng = np.random.default_rng(0)
    for config in (space.default, space.sample(rng), space.sample(rng)):
        texts.update(template.apply(workload, target, config).function.script().encode())
    return texts.hexdigest()


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("key", PLAIN.values())
@pytest.mark.matrix
def test_generic_kernels_are_exact_on_narrow_vectors(key: str, lanes: int) -> None:
    target = replace(host_target("generic"), vector_lanes=lanes, vector_registers=16)
    assert build(parse_workload(key), target).wrong_cases() == []
