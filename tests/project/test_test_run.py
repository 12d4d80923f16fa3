"""What decides which tests run, which run again, and what is said at the end."""

from __future__ import annotations

import ast
import re
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from int8tune.schedules.target import PROFILES
from tests import conftest, mutants, stages
from tests.stages import TIERS, Stage, run
from tests.support.mutation.mutant_tests import files_for
from tests.support.mutation.source_mutants import mutants_of
from tests.support.run import probes, quiet
from tests.support.run.appended import appended
from tests.support.run.made_once import FOLDER, made_once
from tests.support.run.thinned import one_in, representatives
from tests.support.run.tiers import ROOT, TESTS, is_unit
from tests.support.run.unproven import last_line

CALM = quiet.Moment(1000, 0, 1.0)
DISTURBED = quiet.Moment(2000, 230, 4.1)
INI = """
[pytest]
markers =
    alone: runs alone
    matrix: shows each value
    slow: minutes
    thorough: the rest
    promise(*numbers): proves promises
"""
FAILS_ONCE = """
import pytest
runs = []
@pytest.fixture(scope="module")
def made():
    return len(runs)
@pytest.mark.{mark}
def test_it(made):
    runs.append(made)
    assert len(runs) > 1
    assert made == 1
"""
FAILS_BESIDE_OTHERS = """
import pytest
@pytest.mark.alone
def test_it(pytestconfig):
    if pytestconfig.getoption("--again-to"):
        assert False
    assert PASSES
def test_other(): pass
"""

PLUGINS = f"pytest_plugins = [f'tests.support.run.{{name}}' for name in {conftest.RUN}]"


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own with these plugins."""
    pytester.syspathinsert(ROOT)
    # Plugins that these tests need not wait for.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:benchmark -p no:hypothesispytest -p no:platformdirs")
    pytester.makeini(INI)
    pytester.makeconftest(PLUGINS)
    return pytester


@pytest.fixture
def disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hypervisor that takes the cores away for 23 % of each test."""
    moments = iter([CALM, DISTURBED] * 5)
    monkeypatch.setattr(quiet.Moment, "now", lambda: next(moments))


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet.Moment, "now", lambda: CALM)


@pytest.mark.usefixtures("disturbed")
class TestDisturbed:
    def test_what_passes_then_counts_as_passed_and_is_said(self, inner: pytest.Pytester) -> None:
        inner.makepyfile(FAILS_ONCE.format(mark="alone"))
        result = inner.runpytest_inprocess()
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(
            ["1 test repeated, as the machine was disturbed", "  steal 23 %, load 4.1: *::test_it"]
        )

    def test_a_second_failure_stands(self, inner: pytest.Pytester) -> None:
        inner.makepyfile(FAILS_ONCE.format(mark="alone").replace("made == 1", "False"))
        result = inner.runpytest_inprocess()
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["1 test repeated*"])

    def test_tests_that_others_run_beside_are_not_repeated(self, inner: pytest.Pytester) -> None:
        inner.makepyfile(FAILS_ONCE.format(mark="promise(1)"))
        result = inner.runpytest_inprocess()
        result.assert_outcomes(failed=1)
        result.stdout.no_fnmatch_line("*test repeated*")

    def test_what_fails_beside_others_has_no_verdict_and_runs_by_itself(self, inner: pytest.Pytester) -> None:
        inner.makepyfile(test_one=FAILS_ONCE.format(mark="alone") + "def test_other(): pass\n")
        again = inner.path / "again"
        result = inner.runpytest_inprocess(f"--again-to={again}", "-rs")
        result.assert_outcomes(passed=1, skipped=1)
        result.stdout.fnmatch_lines(["SKIPPED [[]1[]] *failed beside others, runs again by itself"])
        assert appended(again) == ["test_one.py::test_it"]
        inner.runpytest_inprocess(f"--these={again}").assert_outcomes(passed=1, deselected=1)

    def test_each_run_has_a_limit_of_its_own(self, inner: pytest.Pytester) -> None:
        inner.makepyfile("import pytest, time\n@pytest.mark.alone\ndef test_it():\n    time.sleep(20)")
        result = inner.runpytest_inprocess("--timeout", "0.3")
        result.assert_outcomes(failed=1)
        assert result.duration < 10

    @pytest.mark.thorough
    def test_processes_beside_each_other_say_it_too(self, inner: pytest.Pytester) -> None:
        inner.makeconftest(
            'pytest_plugins = ["tests.support.run.quiet"]\nfrom tests.support.run import quiet\n'
            "moments = iter([quiet.Moment(1000, 0, 1.0), quiet.Moment(2000, 230, 4.1)])\n"
            "quiet.Moment.now = lambda: next(moments)\n"
        )
        inner.makepyfile(FAILS_ONCE.format(mark="alone"))
        result = inner.runpytest_subprocess("-n", "1")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["  steal 23 %, load 4.1: *::test_it"])


@pytest.mark.usefixtures("calm")
def test_a_failure_on_a_calm_machine_stands(inner: pytest.Pytester) -> None:
    inner.makepyfile(FAILS_ONCE.format(mark="alone"))
    result = inner.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*test repeated*")


@pytest.mark.parametrize(
    ("steal", "load", "said"),
    [(0, 1.0, ""), (40, 2.9, ""), (60, 0.5, "steal 6 %, load 0.5"), (0, 3.1, "steal 0 %, load 3.1")],
)
def test_steal_and_load_of_others_are_disturbances(steal: int, load: float, said: str) -> None:
    assert quiet.disturbance(quiet.Moment(0, 0, 0.2), quiet.Moment(1000, steal, load), 2) == said


def test_a_moment_is_read_from_proc(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  10 1 5 80 2 0 1 7 3 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    (tmp_path / "loadavg").write_text("4.10 2.00 1.00 3/200 1234\n")
    assert quiet.Moment.now(tmp_path) == quiet.Moment(106, 7, 4.1)
    assert quiet.Moment.now(tmp_path / "none") == quiet.Moment(0, 0, 0.0)


class TestUnproven:
    SKIPS = """
        import pytest
        pytestmark = pytest.mark.promise(5)
        @pytest.mark.promise(4, 3)
        def test_board():
            pytest.skip("no sshd")
        @pytest.mark.skipif(True, reason="no QEMU")
        def test_arm():
            pass
        def test_here():
            pass
        """

    @pytest.mark.parametrize("beside", [[], ["-n", "1"]], ids=["one process", "beside"])
    def test_the_last_line_says_it_by_reason(self, inner: pytest.Pytester, beside: list[str]) -> None:
        inner.makepyfile(self.SKIPS)
        result = inner.runpytest_subprocess(*beside)
        result.assert_outcomes(passed=1, skipped=2)
        last = [line for line in result.outlines if line][-1]
        assert last == "promises 3, 4, 5 not proven here: no sshd; promise 5 not proven here: no QEMU"

    def test_nothing_is_said_where_all_ran(self, inner: pytest.Pytester) -> None:
        inner.makepyfile("import pytest\n@pytest.mark.promise(1)\ndef test_it(): pass\ndef test_no(): pytest.skip('x')")
        inner.runpytest_inprocess().stdout.no_fnmatch_line("*not proven*")

    def test_reasons_of_several_runs_are_added(self) -> None:
        found = [("no sshd", [5, 3]), ("no QEMU", [4]), ("no sshd", [17])]
        said = "promises 3, 5, 17 not proven here: no sshd; promise 4 not proven here: no QEMU"
        assert last_line(found) == said

    def test_marks_are_what_the_documentation_says(self) -> None:
        """Each row of its table names the files that prove a promise."""
        named: dict[str, set[int]] = defaultdict(set)
        for line in (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").splitlines():
            if match := re.match(r"\| (\d+) [^|]*\|([^|]*\|[^|]*)\|", line):
                for name in re.findall(r"`([\w/]+)`", match[2]):
                    named[name].add(int(match[1]))
        assert set().union(*named.values()) == set(range(1, 24))
        for name, numbers in named.items():
            folder, _, stem = name.rpartition("/")
            assert _promised(TESTS / folder / f"test_{stem}.py") == numbers, name


def _promised(path: Path) -> set[int]:
    """What the marks of a whole file say that it proves."""
    marks = [
        node
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
        for node in ast.walk(statement)
    ]
    calls = [node for node in marks if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise"]
    return {ast.literal_eval(number) for call in calls for number in call.args}


class TestTiers:
    @pytest.mark.parametrize(
        "name", ["results/test_stats", "rpc/farm/test_promises", "schedules/test_reference", "rpc/test_protocol"]
    )
    def test_unit_files(self, name: str) -> None:
        assert is_unit(TESTS / f"{name}.py")

    @pytest.mark.parametrize(
        "name", ["schedules/test_templates", "tuner/cli/test_tune", "rpc/farm/test_boards", "compiler/test_compile"]
    )
    def test_others(self, name: str) -> None:
        """They load TVM, start processes, or do so by what they import."""
        assert not is_unit(TESTS / f"{name}.py")

    def test_an_import_inside_of_a_test_counts(self, tmp_path: Path) -> None:
        own = tmp_path / "test_own.py"
        own.write_text("def test_it():\n    import tvm\n")
        assert not is_unit(own)

    def test_the_quick_stages_share_all_files(self) -> None:
        assert [stage.name for stage in TIERS["quick"]] == ["unit", "system"]
        assert TIERS["all"][:2] == TIERS["quick"]

    @pytest.mark.thorough
    def test_a_stage_runs_behind_one_that_left_promises_unproven(self, inner: pytest.Pytester) -> None:
        inner.makepyfile("import pytest\n@pytest.mark.promise(1)\ndef test_it(): pytest.skip('no sshd')")
        stage = Stage("one", "not slow", beside=False)
        assert run((stage, stage), None, 1) == 0

    def test_the_last_line_counts_what_all_stages_ran(
        self, inner: pytest.Pytester, capfd: pytest.CaptureFixture[str]
    ) -> None:
        inner.makepyfile("import pytest\ndef test_it(): pass\ndef test_no(): pytest.skip('x')")
        one, empty = Stage("one", "not slow", beside=False), Stage("none", "slow", beside=False)
        assert run((one, one, empty), None, None) == 0
        assert re.fullmatch(r"one, one, none: 2 passed, 2 skipped in [\d.]+s", capfd.readouterr().out.splitlines()[-1])
        inner.makepyfile("def test_it(): assert False")
        assert run((one, empty), None, None) == 1
        assert "one, none: 1 failed in " in capfd.readouterr().out.splitlines()[-1]

    @pytest.mark.parametrize(("passes", "said"), [("True", "2 passed"), ("False", "1 failed, 1 passed")])
    @pytest.mark.thorough
    def test_what_failed_beside_others_is_judged_by_itself(
        self, inner: pytest.Pytester, capfd: pytest.CaptureFixture[str], passes: str, said: str
    ) -> None:
        inner.makepyfile(FAILS_BESIDE_OTHERS.replace("PASSES", passes))
        assert run((Stage("one", "not slow"),), None, None) == (0 if passes == "True" else 1)
        assert f"one: {said} in " in capfd.readouterr().out.splitlines()[-1]

    def test_nothing_is_started_when_the_time_is_over(self, inner: pytest.Pytester) -> None:
        inner.makepyfile("import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_it(n): pass")
        result = inner.runpytest_inprocess("--until-s", "0", "-rs")
        result.assert_outcomes(skipped=9)
        result.stdout.fnmatch_lines(["SKIPPED [[]9[]] *not started: 0 s were over"])
        inner.runpytest_inprocess("--until-s", "60").assert_outcomes(passed=9)

    @pytest.mark.thorough
    def test_a_suite_goes_on_with_what_has_not_passed(self, inner: pytest.Pytester) -> None:
        cases = "import pytest, sys\ndef test_a(): pass\ndef test_b(): assert False\ndef test_c(): pytest.skip('x')\n"
        inner.makepyfile(test_it=cases)
        kept = inner.path / "kept"
        inner.runpytest_inprocess(f"--go-on={kept}", "--until-s", "0").assert_outcomes(skipped=3)
        assert not kept.exists()
        inner.runpytest_inprocess(f"--go-on={kept}").assert_outcomes(passed=1, failed=1, skipped=1)
        inner.runpytest_inprocess(f"--go-on={kept}").assert_outcomes(failed=1, deselected=2)
        inner.runpytest_subprocess(f"--go-on={kept}", "-n1").assert_outcomes(failed=1)

    def test_what_passed_at_another_commit_does_not_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept = tmp_path / "kept"
        monkeypatch.setattr(stages, "commit", lambda: "aaa")
        stages.require_same_commit(kept)
        stages.require_same_commit(kept)
        monkeypatch.setattr(stages, "commit", lambda: "bbb")
        with pytest.raises(SystemExit, match=f"{kept} is of aaa, the sources are bbb"):
            stages.require_same_commit(kept)

    def test_an_order_is_drawn_and_keeps_a_function_s_tests_together(self, inner: pytest.Pytester) -> None:
        body = "".join(f"@pytest.mark.parametrize('n', range(3))\ndef test_{name}(n): pass\n" for name in "abcdef")
        inner.makepyfile("import pytest\n" + body)
        orders = set()
        for seed in ("1", "2", "1"):
            lines = inner.runpytest_inprocess("--order-seed", seed, "-v").outlines
            ran = "".join(match[1] for line in lines if (match := re.search(r"::test_(\w)\[\d\] PASSED", line)))
            assert sorted(ran[::3]) == list("abcdef")
            assert ran == "".join(3 * name for name in ran[::3])
            orders.add(ran)
        assert len(orders) == 2


class TestLargeHeap:
    def test_what_a_collection_has_loaded_is_gone_through_once(self, inner: pytest.Pytester) -> None:
        inner.makepyfile("""
            import gc, inspect, sys

            def test_it():
                assert gc.isenabled()
                assert gc.get_freeze_count() > 10_000
                frame, files = sys._getframe(), set()
                while frame := frame.f_back:
                    if inspect.getmodule(frame) is None:
                        files.add(frame.f_code.co_filename)
                assert files
                assert files <= set(inspect.modulesbyfile)
        """)
        inner.runpytest_subprocess().assert_outcomes(passed=1)


class TestMadeOnce:
    @pytest.mark.parametrize("is_run", [True, False])
    def test_the_first_makes_what_all_find(self, is_run: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Path] = []

        def make(folder: Path) -> None:
            made.append(folder)
            time.sleep(0.1)
            (folder / "part").write_text("whole")

        run_folder, other = tmp_path / "run", tmp_path / "other"
        run_folder.mkdir()
        other.mkdir()
        monkeypatch.setenv(FOLDER, str(run_folder) if is_run else "")
        with ThreadPoolExecutor(3) as pool:
            found = [*pool.map(lambda _: made_once("parts", make, other), range(3))]
        assert len(made) == 1
        assert found == 3 * [(run_folder if is_run else other) / "parts"]
        assert (found[0] / "part").read_text() == "whole"

    def test_what_fails_is_made_by_the_next(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(folder: Path) -> None:
            raise OSError(folder)

        monkeypatch.delenv(FOLDER)
        with pytest.raises(OSError, match="parts-"):
            made_once("parts", fail, tmp_path)
        assert made_once("parts", lambda folder: (folder / "part").touch(), tmp_path) == tmp_path / "parts"
        assert (tmp_path / "parts" / "part").exists()


class TestThinned:
    def test_each_value_of_each_axis_has_a_representative(self) -> None:
        sets = representatives([(a, b) for a in "xyz" for b in range(5)])
        quick = [each.values for each in sets if not each.marks]
        assert len(sets) == 15
        assert len(quick) == 5
        assert {a for a, _ in quick} == set("xyz")
        assert {b for _, b in quick} == set(range(5))
        assert {mark.name for each in sets for mark in each.marks} == {"thorough"}

    def test_features_may_be_named(self) -> None:
        quick = [each.values[0] for each in representatives(["ab", "b", "bc", "d"], set) if not each.marks]
        assert quick == ["ab", "bc", "d"]

    def test_one_in_some(self) -> None:
        assert [bool(each.marks) for each in one_in(3, range(7))] == [False, True, True] * 2 + [False]

    def test_profiles_of_other_machines_come_last(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (avx2,) = (profile.needs for profile in PROFILES if profile.name == "x86-avx2")
        monkeypatch.setattr(probes, "cpu_features", lambda: avx2)
        thinned = one_in(4, [("x86-amx", 1), ("x86-avx2", 1), ("generic", "x86-amx"), ("arm-neon", 2)])
        assert [each.values[0] for each in thinned] == ["x86-avx2", "arm-neon", "x86-amx", "generic"]
        assert [bool(each.marks) for each in thinned] == [False, True, True, True]


class TestMatrix:
    BODY = """
        import pytest
        @pytest.fixture(params=["x86", "a53"])
        def board(request):
            return request.param
        @pytest.mark.matrix
        @pytest.mark.parametrize("kind", ["u", "s", pytest.param("w", marks=pytest.mark.slow)])
        @pytest.mark.parametrize("size", [1, 2, 3])
        def test_it(board, size, kind): pass
        @pytest.mark.parametrize("size", [1, 2])
        def test_other(board, size): pass
        @pytest.mark.matrix
        def test_alone(): pass
        @pytest.mark.matrix(at_most=2)
        @pytest.mark.parametrize("size", [1, 2, 3])
        def test_long(size): pass
        """

    def test_each_value_stays_in_the_quick_run(self, inner: pytest.Pytester) -> None:
        inner.makepyfile(self.BODY)
        ran = self.ran(inner, "not slow and not thorough")
        assert len(ran) == 3
        assert {part for each in ran for part in each.split("-")} == {"x86", "a53", "u", "s", "1", "2", "3"}
        quick = inner.runpytest_inprocess("-m", "not slow and not thorough")
        quick.assert_outcomes(passed=3 + 4 + 1 + 2, deselected=15 + 1)

    def test_the_rest_is_thorough_and_what_is_long_stays_so(self, inner: pytest.Pytester) -> None:
        inner.makepyfile(self.BODY)
        quick, thorough = (set(self.ran(inner, marks)) for marks in ("not slow and not thorough", "thorough"))
        assert len(thorough) == 12 - 3
        assert not quick & thorough
        assert all("w" in each for each in self.ran(inner, "slow"))

    @staticmethod
    def ran(inner: pytest.Pytester, marks: str) -> list[str]:
        lines = inner.runpytest_inprocess("-m", marks, "-v").outlines
        return [match[1] for line in lines if (match := re.search(r"::test_it\[([^]]*)\] PASSED", line))]


class TestMutants:
    def test_the_list_has_200_of_all_packages_whose_code_is_there(self) -> None:
        kept = mutants.kept()
        assert len(set(kept)) == len(kept) >= 200
        areas = {mutants.area_of(each.module) for each in kept}
        assert areas == set(mutants.AREAS)
        assert [each for each in kept if each.source() is None] == []

    def test_the_likeliest_files_come_first(self) -> None:
        for module in ("results/stats.py", "rpc/farm/ledger.py", "tuner/cli/stopping.py"):
            files = files_for(module)
            assert Path(module).stem in files[0].read_text(encoding="utf-8"), module

    def test_an_edit_changes_one_expression_and_is_taken_back(self) -> None:
        source = "def f(a, b):\n    return min(a + b, 3) if a < b else -a\n"
        found = mutants_of(source)
        sources = {mutant.source for mutant in found}
        assert len(sources) == len(found) == 6
        assert [ast.unparse(ast.parse(source))] == [
            text for text in [ast.unparse(ast.parse(source))] if text not in sources
        ]
        assert "def f(a, b):\n    return min(a - b, 3) if a < b else -a" in sources
