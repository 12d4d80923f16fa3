"""The models of `zoo.py` that Keras builds with random weights, as TensorFlow's converter quantizes them to TFLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from zoo_models import CALIBRATION_SAMPLES, SIDE

# Xception, Inception V3 and Inception-ResNet V2 take no smaller ones than 71 and 75.
LARGER_SIDE = 96


@dataclass(frozen=True, slots=True)
class KerasEntry:
    """A model of the zoo.

    Attributes:
        family: as `zoo_models.Entry` has it.
        make: builds it for inputs of a shape; Keras is imported there.
        shape: of one input, without the batch; words are numbers below `words`.
        words: the size of its vocabulary, 0 where its inputs are numbers.
        is_recurrent: TensorFlow 2.21 crashes when it calibrates it, so that it has the dynamic form alone.
    """

    family: str
    make: Callable[[tuple[int, ...]], Any]
    shape: tuple[int, ...]
    words: int = 0
    is_recurrent: bool = False

    @property
    def forms(self) -> dict[str, Callable[[KerasEntry, Path], None]]:
        return {name: form for name, form in KERAS_FORMS.items() if name == DYNAMIC or not self.is_recurrent}


def application(name: str) -> Callable[[tuple[int, ...]], Any]:
    def make(shape: tuple[int, ...]) -> Any:
        import keras

        return getattr(keras.applications, name)(weights=None, input_shape=shape, classes=100)

    return make


APPLICATIONS = {
    "MobileNet": SIDE,
    "MobileNetV2": SIDE,
    "MobileNetV3Small": SIDE,
    "MobileNetV3Large": SIDE,
    "NASNetMobile": SIDE,
    "EfficientNetB0": SIDE,
    "EfficientNetV2B0": SIDE,
    "DenseNet121": SIDE,
    "ResNet50": SIDE,
    "ResNet50V2": SIDE,
    "VGG16": SIDE,
    "ConvNeXtTiny": SIDE,
    "InceptionV3": LARGER_SIDE,
    "InceptionResNetV2": LARGER_SIDE,
    "Xception": LARGER_SIDE,
}


def keras_entries(side: int = SIDE) -> Iterator[tuple[str, KerasEntry]]:
    """All models by name, those of pictures for ones of that side."""
    for name, usual in APPLICATIONS.items():
        own = max(side, usual)
        yield f"keras_{name.lower()}", KerasEntry("cnn", application(name), (own, own, 3))
    yield "keras_mlp", KerasEntry("cnn", perceptron, (64,))
    yield "keras_unet", KerasEntry("dense", unet, (side, side, 3))
    yield "keras_autoencoder", KerasEntry("audio", perceptron, (640,))
    yield "keras_convolutions_1d", KerasEntry("audio", convolutions, (98, 40))
    yield "keras_lstm", KerasEntry("audio", lambda shape: recurrent("LSTM", shape), (49, 10), is_recurrent=True)
    yield "keras_gru", KerasEntry("audio", lambda shape: recurrent("GRU", shape), (49, 10), is_recurrent=True)
    yield "keras_text_lstm", KerasEntry("transformer", text_lstm, (24,), words=500, is_recurrent=True)
    yield "keras_transformer", KerasEntry("transformer", transformer, (32,), words=500)


def perceptron(shape: tuple[int, ...]) -> Any:
    import keras

    layers = keras.layers
    hidden = [layers.Dense(128, activation="relu"), layers.BatchNormalization(), layers.Dense(8, activation="relu")]
    return keras.Sequential([layers.Input(shape), *hidden, layers.Dense(shape[0])])


def unet(shape: tuple[int, ...]) -> Any:
    import keras

    layers = keras.layers
    image = layers.Input(shape)
    wide = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    deep = layers.Conv2D(32, 3, padding="same", activation="relu")(layers.MaxPooling2D()(wide))
    up = layers.Conv2DTranspose(16, 2, strides=2, padding="same")(deep)
    joined = layers.Concatenate()([wide, up])
    return keras.Model(image, layers.Conv2D(4, 1, activation="softmax")(joined))


def convolutions(shape: tuple[int, ...]) -> Any:
    import keras

    layers = keras.layers
    made = [layers.Input(shape)]
    for index in range(3):
        made += [layers.Conv1D(48, 9, padding="same", dilation_rate=1 << index), layers.BatchNormalization()]
        made += [layers.ReLU()]
    return keras.Sequential([*made, layers.GlobalAveragePooling1D(), layers.Dense(12, activation="softmax")])


def recurrent(kind: str, shape: tuple[int, ...]) -> Any:
    import keras

    layers = keras.layers
    return keras.Sequential([layers.Input(shape, batch_size=1), getattr(layers, kind)(32), layers.Dense(12)])


def text_lstm(shape: tuple[int, ...]) -> Any:
    import keras

    layers = keras.layers
    words = layers.Input(shape, batch_size=1, dtype="int32")
    states = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(layers.Embedding(500, 32)(words))
    return keras.Model(words, layers.Dense(2)(layers.GlobalMaxPooling1D()(states)))


def transformer(shape: tuple[int, ...]) -> Any:
    import keras

    layers = keras.layers
    words = layers.Input(shape, dtype="int32")
    data = layers.Embedding(500, 64)(words)
    for _ in range(2):
        seen = layers.MultiHeadAttention(4, 16)(data, data)
        data = layers.LayerNormalization()(layers.Add()([data, seen]))
        made = layers.Dense(64)(layers.Dense(128, activation="gelu")(data))
        data = layers.LayerNormalization()(layers.Add()([data, made]))
    return keras.Model(words, layers.Dense(2)(layers.GlobalAveragePooling1D()(data)))


@cache
def made(entry: KerasEntry) -> Any:
    """The float model, with the mean and deviation of random data in its normalizations."""
    import keras

    keras.utils.set_random_seed(0)
    model = entry.make(entry.shape)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    batch = model.input_shape[0] or 4
    model(_data(entry, batch, seed=1), training=True)
    return model


def samples(entry: KerasEntry) -> Iterator[list[Any]]:
    """Random inputs to calibrate with."""
    for seed in range(CALIBRATION_SAMPLES):
        yield [_data(entry, 1, seed)]


def _data(entry: KerasEntry, batch: int, seed: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(seed)
    shape = (batch, *entry.shape)
    return rng.integers(0, entry.words, shape, np.int32) if entry.words else rng.standard_normal(shape, np.float32)


def _convert(entry: KerasEntry, path: Path, operators: str = "", bytes_at_both_ends: bool = False) -> None:
    """Write the model as TFLite; without `operators` only its weights are quantized, as its data is when it runs."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(made(entry))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if operators:
        converter.representative_dataset = lambda: samples(entry)
        converter.target_spec.supported_ops = [getattr(tf.lite.OpsSet, operators)]
    if bytes_at_both_ends and not entry.words:
        converter.inference_input_type = converter.inference_output_type = tf.int8
    path.write_bytes(converter.convert())


DYNAMIC = "tflite-dynamic"
INT16 = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"
KERAS_FORMS: dict[str, Callable[[KerasEntry, Path], None]] = {
    "tflite-int8": lambda entry, path: _convert(entry, path, "TFLITE_BUILTINS_INT8", bytes_at_both_ends=True),
    "tflite-int16x8": lambda entry, path: _convert(entry, path, INT16),
    DYNAMIC: lambda entry, path: _convert(entry, path),
}
