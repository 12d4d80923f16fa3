"""Operators of ONNX, and quantized ones of ONNX Runtime, that nothing here computes, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.compiler.onnx_reader.nodes import MICROSOFT, Node

_DYNAMIC = "the shape of what it makes depends on values"
_SEQUENCE = "lists of tensors and optional ones are not supported"
_GRAPHS = "graphs within a node are not supported"
_RANDOM = "it draws random numbers"
_TEXT = "texts and pictures are no numbers: prepare them outside of the model"
_TRAINING = "it is for training"
_KNOWN = "what it makes must be known before the model runs"
_NO_KERNEL = "no kernel computes it yet"
_OPTIMIZED = "ONNX Runtime wrote it for its own kernels: take the model that it was made of"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("Compress", "NonMaxSuppression", "NonZero", "Unique"), _DYNAMIC),
    **dict.fromkeys(("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty"), _SEQUENCE),
    **dict.fromkeys(("SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence"), _SEQUENCE),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), _SEQUENCE),
    **dict.fromkeys(("FlexAttention", "Loop", "Scan", "SequenceMap"), _GRAPHS),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), _RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), _TEXT),
    "TfIdfVectorizer": _TEXT,
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _TRAINING),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), _KNOWN),
    **dict.fromkeys(("ConstantOfShape", "EyeLike", "Range", "Shape", "Size"), _KNOWN),
    "If": "its condition must be a constant",
    "BitCast": "it takes the bits of values for another type",
    **dict.fromkeys(("DeformConv", "Det", "LinearAttention"), _NO_KERNEL),
    **dict.fromkeys(("MaxRoiPool", "MaxUnpool", "TensorScatter"), _NO_KERNEL),
    "Scatter": "ONNX has ScatterElements in its place",
    "Upsample": "ONNX has Resize in its place",
}
"""ONNX's own, up to the newest version that is read."""

OF_MICROSOFT: Mapping[str, str] = {
    **dict.fromkeys(("DequantizeBFP", "QuantizeBFP"), "its values share exponents"),
    **dict.fromkeys(("DequantizeWithOrder", "QuantizeWithOrder", "QOrderedAttention", "QOrderedGelu"), _OPTIMIZED),
    **dict.fromkeys(("QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul"), _OPTIMIZED),
    **dict.fromkeys(("GemmFloat8", "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight"), _NO_KERNEL),
    **dict.fromkeys(("MatMulBnb4", "MatMulFpQ4"), _NO_KERNEL),
    **dict.fromkeys(("MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv", "MulInteger"), _NO_KERNEL),
    **dict.fromkeys(("QLinearReduceMean", "QMoE"), _NO_KERNEL),
    "ReduceSumInteger": _NO_KERNEL,
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv"), _OPTIMIZED),
}
"""Quantized ones of ONNX Runtime's, and those that its optimizer writes."""


def refusal(node: Node, otherwise: str) -> str:
    """Why an operator has no kernel, as far as it is known."""
    domain = node.proto.domain if node.proto is not None else ""
    return (OF_MICROSOFT if domain == MICROSOFT else REFUSED).get(node.operator, otherwise)
