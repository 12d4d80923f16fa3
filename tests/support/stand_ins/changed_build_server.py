"""The build server with a template that has one knob more."""

import int8tune.schedules.registry
from int8tune.tuner.builder.server import main
from tests.support.stand_ins.changed_templates import ConvWithKnob, with_conv

if __name__ == "__main__":
    int8tune.schedules.registry.TEMPLATES = with_conv(ConvWithKnob())
    main()
