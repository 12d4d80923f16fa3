"""The form of a config of any of these templates: what there is to know of a kernel without its code, or TVM."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.schedules.cuda.depthwise_form import DepthwiseForm, depthwise_form
from int8tune.schedules.cuda.first_form import FirstForm, first_form
from int8tune.schedules.cuda.gemm_form import GemmForm, gemm_form
from int8tune.schedules.image import image_of
from int8tune.schedules.space import Value
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d

Form = GemmForm | FirstForm | DepthwiseForm


def form_of(template: str, workload: Conv2d | Dense | DepthwiseConv2d, config: Mapping[str, Value]) -> Form:
    """The form of a config of the template with this name, which takes the workload."""
    if isinstance(workload, DepthwiseConv2d):
        return depthwise_form(workload, config)
    products = template.removeprefix("cuda.")
    image = image_of(workload)
    return first_form(image, config) if products == "first" else gemm_form(image, products, config)
