"""The build server with a template that has one knob more: run as `python -m changed_build_server`."""

from changed_templates import ConvWithKnob, with_conv

import int8tune.schedules.registry
from int8tune.tuner.builder.server import main

if __name__ == "__main__":
    int8tune.schedules.registry.TEMPLATES = with_conv(ConvWithKnob())
    main()
