"""What each failure means to a person: one table from exceptions to exit codes and to the command to type next."""

from __future__ import annotations

import errno
import re
import traceback
from dataclasses import dataclass

import typer

from int8tune.compiler.errors import (
    BatchError,
    CompiledModelError,
    CompilerDiedError,
    CompilerError,
    LayerTableError,
    ModelError,
    NoLinkerError,
    ObstacleError,
    OpenEndError,
    OpenShapeError,
    UnknownNetworkError,
)
from int8tune.quantize.errors import (
    CalibrationError,
    FloatModelError,
    ForeignRangesError,
    NoOnnxError,
    NoTfliteError,
    NoTorchError,
    QuantizeError,
    QuantizeSpecError,
    RangesError,
    UntrustedProgramError,
)
from int8tune.results.errors import (
    BestLogError,
    ComparisonError,
    DamagedRowError,
    DifferentConditionsError,
    ExportError,
    ExtensionError,
    ForeignStoreError,
    NewerSchemaError,
    NoParquetError,
    NoSuchCampaignError,
    NotOwnFileError,
    ResultsError,
    StoreAwayError,
    StoreError,
    StoreGoneError,
    StoreLockedError,
    StoreWriteError,
    UnknownFormError,
    UpkeepError,
)
from int8tune.rpc.bundle.hints import HINTS
from int8tune.rpc.errors import (
    BundleError,
    BundleResultsError,
    DeviceLostError,
    DeviceStartError,
    DownloadError,
    EstimateError,
    HostKeyError,
    InventoryError,
    JournalError,
    LateError,
    LoginError,
    MachineLimitError,
    NoAnswerError,
    NoGpuError,
    NoSshError,
    NotProvisionedError,
    ProvisionError,
    RpcError,
    TrackerError,
    UnknownBoardError,
    UnreachableError,
    WrongDeviceError,
)
from int8tune.schedules.errors import (
    ConfigError,
    ScheduleError,
    UnknownTargetError,
    UnknownTemplateError,
    WorkloadError,
)
from int8tune.tuner.cli.output import say
from int8tune.tuner.errors import (
    BenchError,
    BenchSpecError,
    BuildClusterError,
    BuildPoolError,
    CampaignDiffersError,
    CampaignError,
    CampaignFileError,
    ChoiceError,
    DeviceGoneError,
    ForeignResultsError,
    GivenError,
    NoMetaScheduleError,
    NoPeersError,
    NoQuantizerError,
    NoRoomError,
    NoScheduleError,
    NoTraceError,
    NoTvmError,
    RecordingError,
    ResultsFolderError,
    SamplesError,
    SpecError,
    TooManyThreadsError,
    TunerError,
    UnknownCampaignError,
    UnknownPageError,
    UnknownQuantizerError,
    UnknownStrategyError,
)
from int8tune.tuner.installed import TUNING

FAILED = 1
USAGE = 2
NO_DEVICE = 4

GO_ON = "run the same command again, it goes on where it was"


@dataclass(frozen=True, slots=True)
class Failure:
    """How a class of exceptions ends the program."""

    exit_code: int
    hint: str


# Of Dask, which listens on all interfaces of a machine without them.
_ON_LOOPBACK = "--host 127.0.0.1 --dashboard-address 127.0.0.1:0 --no-dashboard"
_BY_HAND = "try it by hand: ssh -i KEY -o IdentitiesOnly=yes USER@ADDRESS true"

# An exception has the entry of its own class, or of the nearest base that has one.
FAILURES: dict[type[BaseException], Failure] = {
    UnknownNetworkError: Failure(USAGE, "see the layers of a network: int8tune layers resnet50"),
    BatchError: Failure(USAGE, "say how many inputs layers are given at once, such as: --batch 16"),
    LayerTableError: Failure(FAILED, "mend the file, then check it: int8tune layers TABLE.json"),
    ModelError: Failure(FAILED, "see what can be read: int8tune layers --help"),
    OpenShapeError: Failure(FAILED, "say how large the input is, such as: --shape NAME=1x3x224x224"),
    ObstacleError: Failure(
        FAILED,
        "a model can end before them: add --until NAME for each value that they read; int8tune help models",
    ),
    OpenEndError: Failure(FAILED, "compile what comes before it: add --until NAME for each value"),
    CompiledModelError: Failure(FAILED, "compile it for this CPU: int8tune compile MODEL -o FILE"),
    CompilerDiedError: Failure(
        FAILED, "report it with the model; until then: int8tune compile MODEL -o FILE --target generic"
    ),
    CompilerError: Failure(FAILED, "see what is accepted: int8tune layers --help"),
    NoOnnxError: Failure(FAILED, "install what runs and writes models: pip install 'int8tune[quantize]'"),
    NoTorchError: Failure(FAILED, "install what makes ONNX of PyTorch's programs: pip install torch onnxscript"),
    NoTfliteError: Failure(FAILED, "install what quantizes TFLite models: pip install ai-edge-quantizer"),
    UntrustedProgramError: Failure(FAILED, "if you trust where it comes from, add --trust; or give an ONNX file"),
    FloatModelError: Failure(FAILED, "see what a float model must be: int8tune help quantization"),
    CalibrationError: Failure(FAILED, "see what samples may be: int8tune help quantization"),
    ForeignRangesError: Failure(FAILED, "make those of this model: int8tune profile MODEL --data FILE -o OUT"),
    RangesError: Failure(FAILED, "make them anew: int8tune profile MODEL --data FILE -o OUT.ranges.json"),
    QuantizeSpecError: Failure(USAGE, "see the options: int8tune quantize --help; int8tune profile --help"),
    QuantizeError: Failure(FAILED, "see what can be quantized: int8tune help quantization"),
    WorkloadError: Failure(FAILED, "see keys of layers that are known: int8tune layers resnet50"),
    ConfigError: Failure(FAILED, "see what may be chosen: int8tune templates show NAME --workload KEY"),
    UnknownTemplateError: Failure(USAGE, "see the templates: int8tune templates list"),
    UnknownTargetError: Failure(USAGE, "leave --target out for the best one, or see this CPU: int8tune devices check"),
    ScheduleError: Failure(FAILED, "see the templates: int8tune templates list"),
    GivenError: Failure(USAGE, "see --bind and --shape: int8tune compile --help"),
    SpecError: Failure(USAGE, "see the options: int8tune tune --help"),
    CampaignFileError: Failure(
        USAGE, "see what it may say: int8tune help campaign-files; then: int8tune plan FILE.toml"
    ),
    UnknownPageError: Failure(USAGE, "see the pages: int8tune help"),
    UnknownStrategyError: Failure(USAGE, "see the options: int8tune tune --help"),
    UnknownCampaignError: Failure(FAILED, "see what there is: int8tune results list DIR"),
    CampaignDiffersError: Failure(FAILED, "go on as it was started, or start another one: add --name OTHER"),
    NoLinkerError: Failure(FAILED, "install one, such as: apt install gcc"),
    NoRoomError: Failure(FAILED, f"make room, see df -h; then {GO_ON}"),
    ResultsFolderError: Failure(FAILED, "choose a folder that can be written: add --results DIR"),
    DeviceGoneError: Failure(NO_DEVICE, f"check the device: int8tune devices check; then {GO_ON}"),
    ForeignResultsError: Failure(FAILED, "say where the bundle was made: add --results DIR; see int8tune help bundles"),
    TooManyThreadsError: Failure(FAILED, "give it fewer: --threads N; without the option it is one"),
    CampaignError: Failure(FAILED, "see whether building and measuring work here: int8tune devices check"),
    BenchSpecError: Failure(USAGE, "see the options: int8tune bench --help"),
    NoScheduleError: Failure(FAILED, "see what it has: int8tune results best --log FILE"),
    UnknownQuantizerError: Failure(USAGE, "see the options: int8tune compare-schemes --help"),
    NoPeersError: Failure(FAILED, "install the libraries to compare with: pip install 'int8tune[peers]'"),
    NoQuantizerError: Failure(FAILED, "or leave it out of --against: int8tune compare-schemes --help"),
    NoMetaScheduleError: Failure(FAILED, "install them: pip install 'apache-tvm[rpc]==0.27.0.post1' xgboost-cpu"),
    ChoiceError: Failure(FAILED, "allow a larger drop, or more time: add --max-drop 2 --time 10m"),
    BenchError: Failure(FAILED, "see whether building and measuring work here: int8tune devices check"),
    NoTvmError: Failure(FAILED, "install it: pip install 'int8tune[tune]'"),
    SamplesError: Failure(FAILED, "see what samples must be: int8tune accuracy --help"),
    NoTraceError: Failure(
        FAILED, "write them in another form, such as OUT.json; or tune with --target generic; see int8tune help results"
    ),
    RecordingError: Failure(FAILED, "make one: int8tune results export OUT.parquet; see int8tune lab --help"),
    BuildClusterError: Failure(
        FAILED,
        f"dask scheduler {_ON_LOOPBACK}, dask worker tcp://127.0.0.1:8786 {_ON_LOOPBACK} --nthreads 1; then {GO_ON}",
    ),
    BuildPoolError: Failure(FAILED, "see whether TVM loads: python -c 'import tvm'"),
    TunerError: Failure(FAILED, "see the commands: int8tune --help"),
    StoreLockedError: Failure(
        FAILED, "wait for that process, or use another folder, or name: add --results DIR --name X"
    ),
    DamagedRowError: Failure(FAILED, "take what can be read into a new folder: int8tune results merge DIR -o NEW"),
    ForeignStoreError: Failure(FAILED, "move the file away, or use another folder: add --results DIR"),
    NewerSchemaError: Failure(FAILED, "pip install --upgrade int8tune, or use another folder: add --results DIR"),
    StoreGoneError: Failure(FAILED, "put it back, or begin anew: run the same command again"),
    StoreAwayError: Failure(
        FAILED,
        f"see whether it answers: psql URL -c 'SELECT 1'; then {GO_ON}",
    ),
    StoreWriteError: Failure(FAILED, f"see the room and the permissions: df -h DIR; then {GO_ON}"),
    StoreError: Failure(FAILED, "make records: int8tune tune NETWORK; or say where they are: --results DIR"),
    NoSuchCampaignError: Failure(FAILED, "see what there is: int8tune results list DIR"),
    UpkeepError: Failure(FAILED, "choose another name, or other campaigns: int8tune results list DIR"),
    BestLogError: Failure(FAILED, "write a new one: int8tune tune NETWORK ends with one"),
    NotOwnFileError: Failure(
        FAILED, "see what it is: ls -l PATH; move it away, or use another folder: add --results DIR"
    ),
    ComparisonError: Failure(
        FAILED, "see what can be compared: int8tune results compare --help; int8tune help compare"
    ),
    DifferentConditionsError: Failure(FAILED, "compare them all the same: add --across-devices"),
    UnknownFormError: Failure(USAGE, "end the file's name with one that is known, such as OUT.csv"),
    NoParquetError: Failure(FAILED, "install it: pip install 'int8tune[parquet]'; or write a table as OUT.csv"),
    ExportError: Failure(FAILED, "choose a file in a folder that is there and can be written"),
    ExtensionError: Failure(FAILED, "mend that package, or remove it: pip uninstall PACKAGE"),
    ResultsError: Failure(FAILED, "see what is recorded: int8tune results best --results DIR"),
    EstimateError: Failure(FAILED, "install LLVM's tools (Debian: apt install llvm), then run the same command again"),
    DeviceStartError: Failure(NO_DEVICE, "see whether TVM loads: python -c 'import tvm'"),
    UnreachableError: Failure(
        NO_DEVICE, "see whether the board is on and its sshd answers: ssh-keyscan -p PORT ADDRESS"
    ),
    NoSshError: Failure(NO_DEVICE, "install it: pip install 'int8tune[farm]'"),
    HostKeyError: Failure(NO_DEVICE, "see the key that it shows: ssh-keyscan -t ed25519 ADDRESS; int8tune help farm"),
    NoAnswerError: Failure(NO_DEVICE, _BY_HAND),
    LateError: Failure(NO_DEVICE, _BY_HAND),
    LoginError: Failure(NO_DEVICE, _BY_HAND),
    NoGpuError: Failure(NO_DEVICE, "see the driver and its GPUs: nvidia-smi"),
    NotProvisionedError: Failure(NO_DEVICE, "make it ready: int8tune devices provision BOARD --upgrade"),
    TrackerError: Failure(
        NO_DEVICE, "see what the tracker has: python -m tvm.exec.query_rpc_tracker --host ADDRESS --port PORT"
    ),
    WrongDeviceError: Failure(*HINTS[WrongDeviceError]),
    BundleError: Failure(*HINTS[BundleError]),
    BundleResultsError: Failure(*HINTS[BundleResultsError]),
    DownloadError: Failure(
        FAILED, "pip install nvidia-cuda-runtime; or from where a network is: scp -r HOST:.cache/int8tune ~/.cache/"
    ),
    ProvisionError: Failure(FAILED, "see what a board needs: int8tune help farm"),
    DeviceLostError: Failure(NO_DEVICE, f"check the device: int8tune devices check; then {GO_ON}"),
    MachineLimitError: Failure(FAILED, "raise it where this is started: ulimit -n 1024; ulimit -v unlimited"),
    InventoryError: Failure(USAGE, "see what it must say: int8tune help farm; then its boards: int8tune devices list"),
    JournalError: Failure(FAILED, "move the file away; what is recorded stays, what was under way is measured again"),
    UnknownBoardError: Failure(USAGE, "see the boards: int8tune devices list"),
    RpcError: Failure(FAILED, "check the device: int8tune devices check"),
    OSError: Failure(FAILED, "check the path and its permissions: ls -ld PATH"),
}
_OS_HINTS = {
    errno.ENOSPC: f"make room, see df -h; then {GO_ON}",
    errno.EDQUOT: f"make room, see quota; then {GO_ON}",
    errno.EROFS: "choose a folder that can be written: add --results DIR",
    errno.EACCES: "choose a folder that can be written: add --results DIR",
    errno.EMFILE: "allow more open files: ulimit -n 1024",
}
_PARAMETER = re.compile(r"^Invalid value(?: for '([^']+)')?: ")
_BUG = Failure(FAILED, "report it with the traceback, which the same command with --debug shows")


def explain(error: BaseException, *, debug: bool) -> int:
    """Say what went wrong and what to type next; the exit code."""
    error = _known(error)
    if debug and not isinstance(error, typer.TyperException):
        say("".join(traceback.format_exception(error)))
    if isinstance(error, typer.TyperException):
        return _explain_usage(error)
    failure = failure_of(error)
    for line in _lines(error):
        say(f"error: {' '.join(line.split())}")
    known = _OS_HINTS.get(error.errno or 0) if isinstance(error, OSError) else None
    say(f"hint: {known or failure.hint}")
    return failure.exit_code


def in_one_line(error: BaseException) -> str | None:
    """What went wrong and what to do, for who is no terminal; None of what is a bug."""
    error = _known(error)
    failure = failure_of(error)
    return None if failure is _BUG else f"{'; '.join(_lines(error))}; hint: {failure.hint}"


def _known(error: BaseException) -> BaseException:
    """The error itself; where a module of the extra `tune` is missing, the error that says so."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in TUNING:
        return NoTvmError(f"not installed: {error.name}").with_traceback(error.__traceback__)
    return error


def failure_of(error: BaseException) -> Failure:
    """The entry of the error's class in the table; an error without one is a bug."""
    return next((FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES), _BUG)


def _lines(error: BaseException) -> list[str]:
    """One line for each fault; most errors have one."""
    if failure_of(error) is _BUG:
        return [f"this is a bug in int8tune: {type(error).__name__}: {' '.join(str(error).split())}"]
    if isinstance(error, OSError):
        return [": ".join(filter(None, [(error.strerror or str(error)).lower(), str(error.filename or "")]))]
    return str(error).splitlines() or [type(error).__name__]


def _explain_usage(error: typer.TyperException) -> int:
    """Something is wrong with what was typed: in the words of the parser, in the form of the other messages."""
    text = error.format_message() if isinstance(error, typer.BadParameter) else str(error)
    text = _PARAMETER.sub(lambda match: f"{match[1]}: " if match[1] else "", text).strip().removesuffix(".")
    if near := getattr(error, "possibilities", None):
        text += f", did you mean {' or '.join(near)}?"
    text = text.replace("'", "`")
    say(f"error: {text[:1].lower()}{text[1:]}")
    context = getattr(error, "ctx", None)
    say(f"hint: see the options: {context.command_path if context else 'int8tune'} --help")
    return USAGE
