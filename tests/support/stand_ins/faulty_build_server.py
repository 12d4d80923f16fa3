"""The build server with one more template: run in place of the real one."""

import int8tune.schedules.registry
from int8tune.tuner.builder.server import main
from tests.support.stand_ins.faulty_templates import FaultyTemplate

if __name__ == "__main__":
    int8tune.schedules.registry.TEMPLATES = (FaultyTemplate(), *int8tune.schedules.registry.TEMPLATES)
    main()
