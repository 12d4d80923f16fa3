"""The program, as it is started. Signals have their meaning before anything is imported that takes a while."""

from __future__ import annotations

import contextlib
import os
import sys

from int8tune.rpc.process.standard_streams import make_usable, write_last_words
from int8tune.tuner.cli.stopping import INTERRUPTED, Interruption, end_at_signals, ignore_signals, interrupt_at_signals


def main() -> None:
    end_at_signals()
    make_usable()
    from int8tune.tuner.cli.output import end_stdout
    from int8tune.tuner.cli.program import run

    try:
        interrupt_at_signals()
        code = run(sys.argv[1:])
    except Interruption:
        write_last_words(b"interrupted\n")
        code = INTERRUPTED
    if code == INTERRUPTED:  # at once: on its way out, Python would let another signal kill it
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    ignore_signals()
    end_stdout()
    sys.exit(code)


if __name__ == "__main__":
    main()
