"""What is sent to a stock TVM RPC server: the agent with TVM's runtime, and the library that starts it there."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from int8tune.rpc.agent.build import SOURCES, compile_sources, compilers, make_bundle
from int8tune.rpc.agent.kept_folder import make_once
from int8tune.rpc.tracker.take_over import LIBRARY

_FOLDER = "tracker"
_OWN = (SOURCES / "tracker" / "take_over.cc",)
_SHARED = (SOURCES / "processes.cc", SOURCES / "sha256.cc")


def make_files(architecture: str, cache: Path, compiler: Sequence[str] | None = None) -> Path:
    """The folder with these files, from the cache if it is there; compiled by the first compiler if None.

    Raises:
        ProvisionError: the runtime can't be downloaded, or no compiler for the architecture is here.
    """
    bundle = make_bundle(architecture, cache, compiler)
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in _OWN)).hexdigest()
    folder = cache / _FOLDER / f"{bundle.name}-{digest[:8]}"

    def fill(made: Path) -> None:
        for file in bundle.files:
            shutil.copyfile(bundle.folder / file, made / file)
        (made / "bundle").write_text(bundle.name + "\n")
        options = ("-shared", "-fPIC", "-fvisibility=hidden")
        compile_sources(compiler or compilers(architecture)[0], [*_OWN, *_SHARED], made / LIBRARY, options)

    make_once(folder, fill)
    return folder
