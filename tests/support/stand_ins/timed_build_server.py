"""The build server with the timed template alone: run as the storm's campaigns start it."""

import os

import int8tune.schedules.registry
from int8tune.tuner.builder.server import main
from tests.support.stand_ins.timed_template import TimedTemplate

if __name__ == "__main__":
    int8tune.schedules.registry.TEMPLATES = (TimedTemplate(int(os.environ["INT8TUNE_TIMED_CONFIGS"])),)
    main()
