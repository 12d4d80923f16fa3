"""The build server with one more template: run as `python -m faulty_build_server` in place of the real one."""

from faulty_templates import FaultyTemplate

import schedules.registry
from tuner.build.server import main

if __name__ == "__main__":
    schedules.registry.TEMPLATES = (FaultyTemplate(), *schedules.registry.TEMPLATES)
    main()
