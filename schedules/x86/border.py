"""What outputs near the border of an image have of their own: their bias, and the rows of the kernel that they use."""

from __future__ import annotations

from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.border import BorderClasses
from int8tune.schedules.image import Image
from int8tune.schedules.written.border import class_at
from int8tune.schedules.written.image import ReadImage


class BorderedForm(Protocol):
    """What is needed of a form."""

    @property
    def image(self) -> Image: ...
    @property
    def row_classes(self) -> BorderClasses: ...


def row_class(form: BorderedForm, y: Any) -> Any:
    """The border class of output row `y`."""
    classes = form.row_classes[0]
    if isinstance(y, int):
        return classes.at(y)
    return class_at(classes, y) if classes.changes else 0


def kernel_rows(form: BorderedForm, image: ReadImage, y: Any) -> tuple[Any, Any]:
    """The kernel's rows that are inside the image: the first, and the one behind the last."""
    window, inside = form.image.window, form.row_classes[1]
    size, step = window.kernel[0], window.dilation[0]
    if len(inside) == 1 and inside.all():
        return 0, size
    origin = image.top - y * window.stride[0]
    first = T.max(0, T.floordiv(origin + step - 1, step))
    behind = T.min(size, T.floordiv(origin + form.image.height + step - 1, step))
    return first, behind
