"""The operators of TFLite's schema, and those of other compilers, that nothing here computes, each with the reason.

Those that are computed before a model runs, from constants, have one, too.
"""

from __future__ import annotations

from collections.abc import Mapping

_DYNAMIC = "the shape of what it makes depends on values"
_KNOWN = "what it makes must be known before the model runs"
_KEYS = "it looks up keys, such as words, which are no numbers"
_RANDOM = "it draws random numbers"
_RECURRENT = "of recurrent operators LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and SVDF have kernels"
_NO_OPERATOR = "it stands for no operator that a file has"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("UNIQUE", "WHERE"), _DYNAMIC),
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), _DYNAMIC),
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "HASHTABLE_SIZE"), _KEYS),
    **dict.fromkeys(("LSH_PROJECTION", "SKIP_GRAM"), _KEYS),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), _RANDOM),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), _RECURRENT),
    **dict.fromkeys(("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN"), _RECURRENT),
    **dict.fromkeys(("CONCAT_EMBEDDINGS", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"), _NO_OPERATOR),
    **dict.fromkeys(("BROADCAST_ARGS", "RANGE", "RANK", "SHAPE", "ZEROS_LIKE"), _KNOWN),
    "BITCAST": "it takes the bits of values for another type",
    "DENSIFY": "its weights are sparse: store them densely",
    "EMBEDDING_LOOKUP_SPARSE": "its rows are of several lengths",
    "REDUCE_WINDOW": "windows of any number of axes are not supported: use a pool",
}

_COMPILED = "{} made it for {}: give the model that it was made of"
OF_A_KIND: Mapping[str, str] = {
    "CUSTOM ethos-u": _COMPILED.format("Vela", "an Ethos-U"),
    "CUSTOM edgetpu-custom-op": _COMPILED.format("Coral's compiler", "an Edge TPU"),
    "CUSTOM XC_": _COMPILED.format("XMOS' compiler", "an xcore"),
    "CUSTOM Flex": "TensorFlow itself computes it: convert the model without SELECT_TF_OPS",
    "STABLEHLO_": "of StableHLO's operators only STABLEHLO_COMPOSITE is read: convert the model to TFLite's own",
}
"""Reasons for all operators whose names begin so."""


def refusal(word: str, otherwise: str) -> str:
    """Why an operator has no kernel, as far as it is known."""
    of_a_kind = (reason for begin, reason in OF_A_KIND.items() if word.startswith(begin))
    return REFUSED.get(word) or next(of_a_kind, otherwise)
