"""The image that an ARM kernel reads: in place, or a copy with a border, as signed bytes where that is asked for."""

from __future__ import annotations

from int8tune.schedules.image import Image
from int8tune.schedules.written.image import ReadImage, copied_image, image_in_place
from int8tune.schedules.written.signature import Arguments


def read_image(
    problem: Image, arguments: Arguments, slack: int, threads: int, copies: bool, data_offset: int
) -> ReadImage:
    """The image; a copy has `slack` values behind each row, and its bytes are s8 where u8 data has an offset."""
    if not copies:
        return image_in_place(problem, arguments)
    return copied_image(problem, arguments, slack, threads, flip=data_offset != 0)
