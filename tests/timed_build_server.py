"""The build server with the timed template alone: `python -m timed_build_server`, as the storm's campaigns start it."""

import os

from timed_template import TimedTemplate

import int8tune.schedules.registry
from int8tune.tuner.builder.server import main

if __name__ == "__main__":
    int8tune.schedules.registry.TEMPLATES = (TimedTemplate(int(os.environ["INT8TUNE_TIMED_CONFIGS"])),)
    main()
