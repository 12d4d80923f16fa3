"""The layer tables that come with the package, against published figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from int8tune.compiler.batches import network_with_batch
from int8tune.compiler.network import Network
from int8tune.compiler.network_file import load_network, network_names
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Workload, parse_workload

NETWORKS = (
    "bert_base",
    "inception_v1",
    "inception_v2",
    "inception_v3",
    "inception_v4",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet18",
    "resnet50",
)
# Convolutions and dense layers, each as often as one inference runs it.
EXECUTIONS = {
    "bert_base": 12 * 6,
    "inception_v1": 57 + 1,
    "inception_v2": 70 + 1,
    "inception_v3": 94 + 1,
    "inception_v4": 149 + 1,
    "mobilenet_v1": 27 + 1,
    "mobilenet_v2": 52 + 1,
    "resnet18": 20 + 1,
    "resnet50": 53 + 1,
}
TF_SLIM = [name for name in NETWORKS if name.startswith(("inception", "mobilenet"))]
TORCHVISION = ["resnet18", "resnet50"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """A published parameter count, and what it counts.

    Attributes:
        per_channel: values besides the weights for each output channel of a convolution (batch norm).
        classes: outputs of the classifier in the source; 0 where it counts the convolutions only.
        extra: what is left: layer norms, and the stem of Inception V2 (below).
    """

    total: int
    per_channel: int
    classes: int
    extra: int = 0


PARAMETERS = {
    # torchvision, `num_params` of the weights' documentation.
    "resnet18": Parameters(11_689_512, 2, 1000),
    "resnet50": Parameters(25_557_032, 2, 1000),
    "mobilenet_v2": Parameters(3_504_872, 2, 1000),
    # Keras, trainable parameters of MobileNet.
    "mobilenet_v1": Parameters(4_231_976, 2, 1000),
    # TF-slim, inception_v*_test.py, testModelHasExpectedNumberOfParameters: batch norm has no scale there, and its
    # moving mean and variance are counted.
    "inception_v1": Parameters(5_607_184, 3, 0),
    # The separable stem has a bias in place of batch norm: none on its 24 depthwise channels, one on its 64.
    "inception_v2": Parameters(10_173_112, 3, 0, extra=-3 * 24 - 2 * 64),
    "inception_v3": Parameters(21_802_784, 3, 0),
    # Cadene's pretrained-models.pytorch and timm.
    "inception_v4": Parameters(42_679_816, 2, 1000),
    # Transformers, BertEncoder: 12 layers with two layer norms of 2 x 768.
    "bert_base": Parameters(85_054_464, 0, 768, extra=12 * 2 * 2 * 768),
}


def _weights(workload: Workload) -> int:
    return math.prod(workload.weight_shape)


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return load_network(str(request.param))


def test_nine_networks_come_with_the_package() -> None:
    assert network_names() == NETWORKS


def test_a_network_has_the_name_of_its_file() -> None:
    assert tuple(load_network(name).name for name in network_names()) == network_names()


def test_macs_are_the_published_ones(network: Network) -> None:
    published = network.published
    assert published is not None
    assert published.tolerance <= 0.01
    assert abs(network.macs + published.macs_not_in_table - published.macs) <= published.tolerance * published.macs


def test_a_published_figure_says_where_it_is_from_and_what_it_counts(network: Network) -> None:
    assert network.published is not None
    assert len(network.published.source) > 20
    assert "multiply-add" in network.published.counts


def test_layers_run_as_often_as_the_network_has_them(network: Network) -> None:
    assert sum(layer.count for layer in network.layers) == EXECUTIONS[network.name]


def test_weights_add_up_to_the_published_parameters(network: Network) -> None:
    published = PARAMETERS[network.name]
    total = published.extra
    for layer in network.layers:
        workload = layer.workload
        if not isinstance(workload, Dense):
            total += layer.count * (_weights(workload) + published.per_channel * workload.out_channels)
        elif network.name == "bert_base":
            total += layer.count * (_weights(workload) + workload.out_channels)
        else:
            total += published.classes * (workload.in_features + 1) if published.classes else 0
    assert total == published.total


def test_weights_alone_are_within_a_percent_of_the_published_parameters() -> None:
    resnet = load_network("resnet50")
    assert sum(layer.count * _weights(layer.workload) for layer in resnet.layers) == pytest.approx(25.557e6, rel=0.01)


def test_mobilenet_v1_has_the_figures_of_its_definition() -> None:
    # mobilenet_v1.py lists both sums for the convolutions.
    layers = [layer for layer in load_network("mobilenet_v1").layers if not isinstance(layer.workload, Dense)]
    assert sum(layer.macs for layer in layers) == 567_716_352
    assert sum(layer.count * _weights(layer.workload) for layer in layers) == 3_185_088


def test_bert_has_the_dense_layers_of_twelve_encoder_layers() -> None:
    bert = load_network("bert_base")
    assert bert.macs == 12 * (4 * 768 * 768 + 2 * 768 * 3072) * 128
    assert bert.published is not None
    assert bert.published.macs_not_in_table == 12 * 2 * 128 * 128 * 768


def test_every_key_parses_back_and_is_there_once(network: Network) -> None:
    keys = [layer.workload.key for layer in network.layers]
    assert [parse_workload(key).key for key in keys] == keys
    assert len(set(keys)) == len(keys)


def test_every_layer_has_the_numerics_of_qdq_onnx(network: Network) -> None:
    assert {layer.workload.numerics for layer in network.layers} == {Numerics()}
    assert all(layer.workload.key.endswith("-float.c-u8") for layer in network.layers)


def test_the_first_layer_reads_the_input(network: Network) -> None:
    data = network.layers[0].workload.data_shape
    assert math.prod(data) == math.prod(network.input_shape)
    assert data[-1] == network.input_shape[-1]


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "bert_base"])
def test_images_have_the_size_of_a_layer_output_or_of_its_pooling(name: str) -> None:
    convolutions = [layer.workload for layer in load_network(name).layers if not isinstance(layer.workload, Dense)]
    sizes = {load_network(name).input_shape[1]}
    for workload in convolutions:
        assert workload.height == workload.width
        assert workload.height in sizes
        output = workload.output_shape[1]
        # Pools of stride 2: SAME or padding 1 halves and rounds up, VALID with a window of 3 rounds down.
        sizes |= {output, math.ceil(output / 2), (output - 3) // 2 + 1}


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "bert_base"])
def test_the_classifier_reads_one_row_of_the_last_channels(name: str) -> None:
    layer = load_network(name).layers[-1]
    assert isinstance(layer.workload, Dense)
    assert (layer.count, layer.workload.rows) == (1, 1)
    assert layer.workload.out_channels == (1000 if name in TORCHVISION else 1001)


@pytest.mark.parametrize("name", TF_SLIM)
def test_tf_slim_pads_same_or_valid(name: str) -> None:
    for layer in load_network(name).layers:
        workload = layer.workload
        if isinstance(workload, Dense):
            continue
        valid = name in ("inception_v3", "inception_v4") and workload.window.padding == (0, 0, 0, 0)
        assert valid or workload.window.padding == _same_padding(workload), layer.workload.key


def test_strided_convolutions_of_inception_v3_and_v4_are_valid() -> None:
    for name in ("inception_v3", "inception_v4"):
        for layer in load_network(name).layers:
            workload = layer.workload
            if isinstance(workload, Conv2d) and workload.window.stride == (2, 2):
                assert workload.window.padding == (0, 0, 0, 0)


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_pads_both_sides_alike(name: str) -> None:
    for layer in load_network(name).layers:
        if isinstance(layer.workload, Conv2d):
            margin = layer.workload.window.kernel[0] // 2
            assert layer.workload.window.padding == (margin,) * 4


def _same_padding(workload: Conv2d | DepthwiseConv2d) -> tuple[int, int, int, int]:
    """TensorFlow's SAME: the output is the input over the stride, rounded up; an odd row goes to the bottom."""
    margins = []
    for axis, extent in enumerate((workload.height, workload.width)):
        kernel, stride = workload.window.kernel[axis], workload.window.stride[axis]
        total = max((math.ceil(extent / stride) - 1) * stride + kernel - extent, 0)
        margins.append((total // 2, total - total // 2))
    (top, bottom), (left, right) = margins
    return top, left, bottom, right


@pytest.mark.parametrize("name", network_names())
def test_a_batch_is_another_network_of_as_many_layers(name: str) -> None:
    one, many = load_network(name), network_with_batch(load_network(name), 16)
    assert network_with_batch(one, 1) == one
    assert many.name == f"{name}-batch16"
    assert many.macs == 16 * one.macs
    assert one.input_shape is not None
    images, *extents = one.input_shape
    assert many.input_shape == (16 * images, *extents)
    assert [(layer.names, layer.count) for layer in many.layers] == [(layer.names, layer.count) for layer in one.layers]
    assert len({layer.workload.key for layer in many.layers}) == len(many.layers)
    assert many.published is None
