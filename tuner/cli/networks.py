"""`int8tune networks`"""

from __future__ import annotations

from int8tune.tuner.cli.options import DebugOption, Format, FormatOption
from int8tune.tuner.cli.output import aligned, emit, emit_json


def networks(form: FormatOption = Format.TABLE, _debug: DebugOption = False) -> None:
    """List the networks that come with int8tune.

    Example: int8tune networks
    """
    from int8tune.compiler.network_file import load_network, network_names

    known = [load_network(name) for name in network_names()]
    runs = [sum(layer.count for layer in each.layers) for each in known]
    if form is Format.JSON:
        names = ("network", "layers", "distinct", "macs")
        rows = [(each.name, count, len(each.layers), each.macs) for each, count in zip(known, runs, strict=True)]
        emit_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    cells = [
        (each.name, str(count), str(len(each.layers)), f"{each.macs / 1e9:.3g}")
        for each, count in zip(known, runs, strict=True)
    ]
    emit(aligned([("network", "layers", "distinct", "GMACs"), *cells], numbers=(1, 2, 3)))
