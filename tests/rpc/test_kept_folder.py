"""What is made once and kept: by one, while others wait for it; whole, or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from int8tune.rpc.agent.kept_folder import make_once


def test_others_wait_for_what_one_makes(tmp_path: Path) -> None:
    begun, may_end, makers = threading.Event(), threading.Event(), list[str]()

    def make(name: str) -> None:
        def fill(made: Path) -> None:
            makers.append(name)
            begun.set()
            assert may_end.wait(10)
            (made / "content").write_text(name)

        make_once(tmp_path / "kept" / "it", fill)

    first, second = (threading.Thread(target=make, args=[name], daemon=True) for name in ("first", "second"))
    first.start()
    assert begun.wait(10)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert not (tmp_path / "kept" / "it").exists()
    may_end.set()
    for thread in (first, second):
        thread.join(10)
        assert not thread.is_alive()
    assert makers == ["first"]
    assert (tmp_path / "kept" / "it" / "content").read_text() == "first"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["it"]


def test_what_fails_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "it"

    def fails(made: Path) -> None:
        (made / "half").touch()
        raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk"):
        make_once(folder, fails)
    assert list((tmp_path / "kept").iterdir()) == []
    make_once(folder, lambda made: (made / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]
