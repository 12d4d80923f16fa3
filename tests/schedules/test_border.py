"""Which taps of windows are inside an image: by the definition, and for rows of any length."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from int8tune.schedules.border import axis_classes, one_class
from int8tune.schedules.image import image_of
from int8tune.schedules.workload import Window, parse_workload
from int8tune.schedules.x86.conv_form import tiles_of_row

EXTENTS = st.integers(1, 40)
WINDOWS = st.builds(
    lambda kernel, stride, dilation, before, behind: Window(
        (kernel, 1), (stride, 1), (before, 0, behind, 0), (dilation, 1)
    ),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 12),
    st.integers(0, 12),
)


@given(window=WINDOWS, extent=EXTENTS, outputs=EXTENTS)
def test_classes_are_runs_of_outputs_with_the_same_taps_inside(window: Window, extent: int, outputs: int) -> None:
    inside = [
        tuple(
            0 <= output * window.stride[0] - window.padding[0] + tap * window.dilation[0] < extent
            for tap in range(window.kernel[0])
        )
        for output in range(outputs)
    ]
    runs = [(taps, len(list(same))) for taps, same in itertools.groupby(inside)]
    classes, taps_inside = axis_classes(window, 0, extent, outputs)
    assert taps_inside.tolist() == [list(taps) for taps, _ in runs]
    assert list(classes.counts) == [count for _, count in runs]
    assert classes.of(0, outputs) == tuple(at for at, (_, count) in enumerate(runs) for _ in range(count))


def test_all_outputs_are_of_one_class_where_all_taps_are_inside() -> None:
    classes, inside = one_class(3, 7)
    assert (classes.of(0, 7), classes.changes, classes.counts) == ((0,) * 7, (), (7,))
    assert inside.all()


def test_rows_of_any_length_take_no_time() -> None:
    """A layer of one pixel has all rows of all images as one, and a file may say that these are many."""
    image = image_of(parse_workload("conv2d-u8s8-1x3x1048576x4-k3x3x16-s1-p1-float.c-u8"))
    tiles = tiles_of_row(image, 6, True, 0)
    assert [(tile.first, tile.count, tile.classes) for tile in tiles] == [
        (0, 1, (0, 1, 1, 1, 1, 1)),
        (6, 174761, (1,) * 6),
        (1048570, 1, (1,) * 5 + (2,)),
    ]
    assert int(np.prod(axis_classes(image.window, 1, 2**31, 2**31)[1].shape)) == 9
