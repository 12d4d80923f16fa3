"""The build server with one more template: run as `python -m faulty_build_server` in place of the real one."""

from faulty_templates import FaultyTemplate

import int8tune.schedules.registry
from int8tune.tuner.builder.server import main

if __name__ == "__main__":
    int8tune.schedules.registry.TEMPLATES = (FaultyTemplate(), *int8tune.schedules.registry.TEMPLATES)
    main()
