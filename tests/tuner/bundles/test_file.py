"""A bundle's file: the same content is the same file, and whatever was changed is refused."""

from __future__ import annotations

import ast
import json
import os
import random
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from int8tune.rpc.agent.build import Bundle as AgentBundle
from int8tune.rpc.bundle.archive import Bundle, check_bundle, extract, open_bundle, own_bytes
from int8tune.rpc.bundle.carried import PACKAGES, carried_code, carried_modules, imported_by
from int8tune.rpc.bundle.manifest import MANIFEST, id_of
from int8tune.rpc.errors import BundleError
from tests.support.farm.bundles import pack
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.program.cli_program import int8tune

pytestmark = pytest.mark.promise(17)

MOST_OWN_BYTES = 20_000_000


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def bundle(kernels: Kernels, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return pack(tmp_path_factory.mktemp("bundle") / "b.pyz", kernels, {"one": ["good"], "pair": ["good", "prints"]})


def rewritten(bundle: Bundle, path: Path, change: Callable[[str, bytes], bytes | None], comment: bytes = b"") -> Path:
    """The archive made anew, each file as `change` has it; None: without it."""
    with (
        zipfile.ZipFile(bundle.path) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
    ):
        for name in source.namelist():
            if (content := change(name, source.read(name))) is not None:
                made.writestr(name, content)
        made.comment = comment or source.comment
    return path


@pytest.mark.thorough
def test_the_same_content_makes_the_same_file(bundle: Bundle, kernels: Kernels, tmp_path: Path) -> None:
    again = pack(tmp_path / "c.pyz", kernels, {"one": ["good"], "pair": ["good", "prints"]})
    assert again.path.read_bytes() == bundle.path.read_bytes()
    other = pack(tmp_path / "d.pyz", kernels, {"one": ["good"], "pair": ["good", "leaves"]})
    assert other.id != bundle.id


@pytest.mark.thorough
def test_a_bundle_is_small_beside_its_candidates(bundle: Bundle) -> None:
    assert own_bytes(bundle) < MOST_OWN_BYTES
    with zipfile.ZipFile(bundle.path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist() if not entry.filename.startswith("files/"))
    assert unpacked < MOST_OWN_BYTES


def test_each_content_is_kept_once(bundle: Bundle) -> None:
    names = [name for name in bundle.manifest.files if name.startswith("files/")]
    assert len(names) == 1 + 6  # the library, three inputs, three outputs


def test_what_is_extracted_is_what_was_packed(bundle: Bundle, kernels: Kernels, tmp_path: Path) -> None:
    extract(bundle, tmp_path)
    program = bundle.manifest.items[0].request.programs[0]
    assert (tmp_path / program.library).read_bytes() == kernels.library.read_bytes()
    assert not (tmp_path / "int8tune").exists()


def test_what_travels_imports_the_standard_library_alone() -> None:
    modules = carried_modules()
    assert {
        "int8tune.rpc.bundle.runner",
        "int8tune.rpc.board.server",
        "int8tune.rpc.board.session",
        "int8tune.rpc.farm.scheduler",
    } <= modules
    for module in modules:
        names = [name for name in imported_by(module) if name != "int8tune"]
        others = {name.partition(".")[0] for name in names if not name.startswith(PACKAGES)}
        assert others <= sys.stdlib_module_names, module
    # What a module imports when it is needed is not there on a device.
    for name, content in carried_code().items():
        ast.parse(content, name)


@pytest.mark.thorough
def test_every_100th_byte_matters(kernels: Kernels, tmp_path: Path) -> None:
    """The bundle's agent is short; the rest is as usual."""
    agent = AgentBundle("none", tmp_path, dict.fromkeys(("agent", "libtvm_runtime.so", "libtvm_ffi.so"), ""))
    for name in agent.files:
        (tmp_path / name).write_bytes(random.Random(name).randbytes(5000))
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"], "two": ["prints"]}, agent=agent)
    whole = bundle.path.read_bytes()
    damaged = tmp_path / "damaged.pyz"
    refused = same = 0
    for place in range(0, len(whole), 100):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        message = said_of(damaged, bundle)
        assert "\n" not in message
        refused += bool(message)
        same += not message
    print(f"{refused} refused, {same} the same content")
    assert refused > 10 * same


def test_every_200_000th_byte_of_a_whole_one_matters(bundle: Bundle, tmp_path: Path) -> None:
    whole = bundle.path.read_bytes()
    damaged = tmp_path / "damaged.pyz"
    for place in range(100_000, len(whole), 200_000):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert said_of(damaged, bundle)


def said_of(path: Path, bundle: Bundle) -> str:
    """Why a damaged bundle is refused; nothing where what it holds is still the same, such as with another date."""
    try:
        found = open_bundle(path)
        check_bundle(found)
    except BundleError as error:
        return str(error)
    assert found.manifest == bundle.manifest
    return ""


def test_a_bundle_that_was_cut_off_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    whole = bundle.path.read_bytes()
    cut = tmp_path / "cut.pyz"
    rng = random.Random(0)
    for length in (0, 1, 30, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(20))):
        cut.write_bytes(whole[:length])
        with pytest.raises(BundleError, match=r"the bundle is damaged, or no bundle: .*cut\.pyz"):
            open_bundle(cut)


def test_a_changed_candidate_is_refused_by_its_name(bundle: Bundle, tmp_path: Path) -> None:
    library = bundle.manifest.items[0].request.programs[0].library
    changed = rewritten(bundle, tmp_path / "b.pyz", lambda name, data: data + b"x" if name == library else data)
    with pytest.raises(BundleError, match=f"`{library}` is not what was packed"):
        check_bundle(open_bundle(changed))


def test_a_changed_manifest_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    changed = rewritten(bundle, tmp_path / "b.pyz", lambda name, data: data + b" " if name == MANIFEST else data)
    with pytest.raises(BundleError, match="its manifest is not the one that was written"):
        open_bundle(changed)


@pytest.mark.parametrize("name", ["files", "int8tune/rpc/bundle/runner.py"])
def test_missing_files_are_refused(bundle: Bundle, tmp_path: Path, name: str) -> None:
    less = rewritten(bundle, tmp_path / "b.pyz", lambda file, data: None if file.startswith(name) else data)
    with pytest.raises(BundleError, match="it has other files than its manifest says"):
        check_bundle(open_bundle(less))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), 2, "a bundle of another version, format 1 is known here: 2"),
        (("kind",), "abacus", "field `kind` must be one of cpu, gpu: 'abacus'"),
        (("architecture",), "z80", "field `architecture` must be one of aarch64, x86_64: 'z80'"),
        (("canary", "library"), "files/none.so", "a file of a program is not in the bundle: 'files/none.so'"),
        (("files", "../up"), {"size_bytes": 1, "sha256": "0" * 64}, "no name of a file: '../up'"),
        (("files", "/etc/passwd"), {"size_bytes": 1, "sha256": "0" * 64}, "no name of a file: '/etc/passwd'"),
        (("items", 0, "id"), "pair", "two items have the same id"),
        (("items", 0, "request", "run_limit_s"), 1e9, "field `run_limit_s` must be a number"),
        (("extra",), 1, "unknown field: `extra`"),
    ],
)
def test_a_manifest_is_read_strictly(
    bundle: Bundle, tmp_path: Path, path: tuple[str | int, ...], value: object, message: str
) -> None:
    with zipfile.ZipFile(bundle.path) as archive:
        content = json.loads(archive.read(MANIFEST))
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    manifest = json.dumps(content).encode()
    changed = rewritten(
        bundle, tmp_path / "b.pyz", lambda name, data: manifest if name == MANIFEST else data, id_of(manifest).encode()
    )
    with pytest.raises(BundleError) as caught:
        open_bundle(changed)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "error: the bundle is damaged, or no bundle: {path}: File is not a zip file"),
        (
            b"\x89PNG\r\n\x1a\n" + bytes(100),
            "error: the bundle is damaged, or no bundle: {path}: File is not a zip file",
        ),
    ],
)
def test_the_program_says_in_a_line_that_a_file_is_no_bundle(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "b.pyz"
    path.write_bytes(content)
    ended = int8tune("bundle", "run", path)
    assert ended.code == 1
    assert ended.err.splitlines() == [
        message.format(path=path),
        "hint: copy it here again, or make it again: int8tune bundle make NETWORK",
    ]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_and_a_pipe_are_no_bundles(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path, "not a file"),
        (tmp_path / "pipe", "not a file"),
        (tmp_path / "none", "no such file"),
    ):
        ended = int8tune("bundle", "run", path)
        assert ended.code == 1
        (line,) = ended.errors
        assert line.startswith(f"error: {message}"), line
