"""The program's commands, put together. Each imports what it needs when it runs, so that the others start fast."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer
from typer.main import get_command

from int8tune.tuner.cli.accuracy import accuracy
from int8tune.tuner.cli.bench import bench
from int8tune.tuner.cli.best import best
from int8tune.tuner.cli.bundle import make, merge, run_
from int8tune.tuner.cli.campaigns import archive, list_campaigns, merge_, prune, rename, show
from int8tune.tuner.cli.compare import compare
from int8tune.tuner.cli.compare_schemes import compare_schemes
from int8tune.tuner.cli.compile import compile_
from int8tune.tuner.cli.devices import check, list_, provision, release, trust
from int8tune.tuner.cli.failures import explain
from int8tune.tuner.cli.help import help_
from int8tune.tuner.cli.lab import export, lab
from int8tune.tuner.cli.layers import layers
from int8tune.tuner.cli.networks import networks
from int8tune.tuner.cli.options import Invocation
from int8tune.tuner.cli.output import emit
from int8tune.tuner.cli.plan import plan
from int8tune.tuner.cli.profile import profile
from int8tune.tuner.cli.quantize import quantize
from int8tune.tuner.cli.report import report
from int8tune.tuner.cli.sensitivity import sensitivity
from int8tune.tuner.cli.simulate import simulate
from int8tune.tuner.cli.suggest import suggest
from int8tune.tuner.cli.templates import list_templates, show_template
from int8tune.tuner.cli.tune import tune
from int8tune.tuner.cli.watch import watch

NAME = "int8tune"


def run(arguments: list[str]) -> int:
    """Run one command; the exit code.

    Raises:
        Interruption: by a signal.
    """
    invocation = Invocation(arguments)
    try:
        command = get_command(make_program())
        code = command.main(arguments or ["--help"], prog_name=NAME, standalone_mode=False, obj=invocation)
    except Exception as error:
        return explain(error, debug=invocation.debug)
    return code if isinstance(code, int) else 0


def make_program() -> typer.Typer:
    """All commands."""
    program = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
    program.callback()(_program)
    for command in (
        tune,
        plan,
        watch,
        networks,
        layers,
        report,
        accuracy,
        bench,
        profile,
        quantize,
        sensitivity,
        lab,
        simulate,
    ):
        program.command()(command)
    program.command("compile")(compile_)
    program.command("help")(help_)
    program.command("compare-schemes")(compare_schemes)
    templates = _group("The ways to compute a layer, and what they leave open.")
    templates.command("list")(list_templates)
    templates.command("show")(show_template)
    results = _group("What campaigns found.")
    results.command("list")(list_campaigns)
    results.command("show")(show)
    results.command("best")(best)
    results.command("compare")(compare)
    results.command("suggest")(suggest)
    results.command("export")(export)
    results.command("merge")(merge_)
    results.command("rename")(rename)
    results.command("archive")(archive)
    results.command("prune")(prune)
    devices = _group("The machines that kernels are measured on.")
    devices.command("list")(list_)
    devices.command("check")(check)
    devices.command("provision")(provision)
    devices.command("release")(release)
    devices.command("trust")(trust)
    bundles = _group("Measuring on devices that can't be reached.")
    bundles.command("make")(make)
    bundles.command("run")(run_)
    bundles.command("merge")(merge)
    groups = (("templates", templates), ("results", results), ("devices", devices), ("bundle", bundles))
    for name, group in groups:
        program.add_typer(group, name=name)
    return program


def _group(text: str) -> typer.Typer:
    group = typer.Typer(help=text, add_completion=False, rich_markup_mode=None)
    group.callback(invoke_without_command=True, help=text)(_show_help)
    return group


def _show_help(context: typer.Context) -> None:
    """A group alone."""
    if context.invoked_subcommand is None:
        emit(context.get_help())


def _print_version(wanted: bool) -> None:
    if wanted:
        emit(f"{NAME} {version(NAME)}")
        raise typer.Exit


def _program(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the fastest int8 schedules for the layers of a network on this machine.

    Example: int8tune tune mobilenet_v2
    """
