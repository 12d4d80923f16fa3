"""A bundle's own `__main__`: any Python can read it, and what it can't run is said in a line."""

import sys

OLDEST = (3, 11)


def start() -> object:
    """The exit code, or what is wrong."""
    if sys.version_info < OLDEST:
        return "error: this needs Python %d.%d or newer: %s" % (*OLDEST, sys.version.split()[0])  # noqa: UP031
    try:
        from pathlib import Path

        from int8tune.rpc.bundle.command import main
    except Exception as error:  # a module that was damaged fails in any way
        return f"error: the bundle is damaged: {sys.argv[0]}: {type(error).__name__}"
    return main(Path(sys.argv[0]), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())  # type: ignore[arg-type]
