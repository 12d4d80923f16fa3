"""What can go wrong when a layer is described or scheduled.

ScheduleError
├── WorkloadError        a shape, type or key that describes no int8 layer
├── OperandError         values that are not the operands of their workload
├── ConfigError          a config that is not a point of its template's space
├── UnknownTemplateError a template name or version nobody registered
└── UnknownTargetError   a target name nobody registered
"""


class ScheduleError(Exception):
    """Base of every error this package raises on purpose."""


class WorkloadError(ScheduleError):
    """A shape, type or key that describes no int8 layer."""


class OperandError(ScheduleError):
    """Values that are not the operands of their workload."""


class ConfigError(ScheduleError):
    """A config that is not a point of its template's space."""


class UnknownTemplateError(ScheduleError):
    """A template name or version nobody registered."""


class UnknownTargetError(ScheduleError):
    """A target name nobody registered."""
