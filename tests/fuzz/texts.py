"""Mutations of bytes, JSON and TOML: what somebody may write who wants a reader to fail, hang or grow."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]

_RAW = "\x00raw%d\x00"
# Texts of values; some are no JSON.
_VALUES: Sequence[Callable[[random.Random], str]] = (
    lambda rng: rng.choice(["null", "true", "false", "NaN", "Infinity", "-Infinity", "1e999", "-0.0", "1e-320", '""']),
    lambda rng: str(rng.choice([-1, 0, 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**15, 10**100, 10**307])),
    lambda rng: "9" * rng.choice([300, 308, 309, 400, 4300, 4301, 100_000]),
    lambda rng: f"1{'0' * rng.choice([307, 308, 400])}.5",
    lambda rng: "[" * (depth := rng.choice([20, 63, 64, 200, 900, 3000, 100_000])) + "]" * depth,
    lambda rng: '{"a":' * (depth := rng.choice([20, 64, 200, 900, 3000])) + "1" + "}" * depth,
    lambda rng: "[" + ",".join(["[]"] * rng.choice([100, 10_000, 400_000])) + "]",
    lambda rng: "{" + ",".join(f'"{n}":{n}' for n in range(rng.choice([3, 100, 60_000]))) + "}",
    lambda rng: "{" + ",".join(['"a":1'] * rng.choice([2, 60_000])) + "}",
    lambda rng: json.dumps(rng.choice(["x", "\0", "\x1b[2J", "\u2028", "é", "..", "/", "-1"]) * rng.choice([1, 600])),
    lambda rng: '"' + "a" * rng.choice([70_000, 2_000_000]) + '"',
    lambda rng: '"' + rng.choice(["\\ud800", "\\u0000", "\\" * 1001, '\\"' * 20_000]) + '"',
)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut out, put in, repeated or cut off."""
    content = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(content) + 1)
        many = min(len(content) - at, rng.choice([1, 1, 4, 64, 4096]))
        match rng.randrange(6):
            case 0 if many:
                content[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            case 1:
                del content[at : at + many]
            case 2:
                content[at:at] = rng.randbytes(many or 1)
            case 3:
                content[at:at] = bytes(content[at : at + many]) * rng.choice([2, 1000])
            case 4:
                word = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**31, len(data), rng.randrange(2**32)])
                content[at : at + 4] = word.to_bytes(4, "little")
            case _:
                del content[at:]
    return bytes(content)


def many_lines(data: bytes, rng: random.Random) -> bytes:
    """Lines of nothing, or the same one, very often; or one that does not end."""
    lines = data.splitlines(keepends=True) or [b""]
    line = rng.choice([b"\n", b"x\n", b"[]\n", b"[" * 5000 + b"\n", b"z" * (12 << 20), rng.choice(lines)])
    at = rng.randrange(len(lines) + 1)
    often = min(rng.choice([2, 1000, 1000, 1000, 2_000_000]), (10 << 20) // max(1, len(line)) + 1)
    return b"".join((*lines[:at], line * often, *lines[at:]))


def changed_json(data: bytes, rng: random.Random) -> bytes:
    """One to three values or names of a JSON text replaced, removed, repeated or put in."""
    tree = json.loads(data)
    raw: list[str] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        tree = _changed(tree, rng, raw)
    text = json.dumps(tree)
    for number, piece in enumerate(raw):
        text = text.replace(json.dumps(_RAW % number), piece)
    return text.encode()


def json_line(data: bytes, rng: random.Random) -> bytes:
    """A line of JSON changed."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    return b"\n".join((*lines[:at], changed_json(lines[at], rng), *lines[at + 1 :], b""))


def checked_line(data: bytes, rng: random.Random) -> bytes:
    """A line of JSON changed that has a checksum before it, which is right again."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    text = changed_json(lines[at].partition(b" ")[2], rng)
    return b"\n".join((*lines[:at], b"%08x %s" % (zlib.crc32(text), text), *lines[at + 1 :], b""))


def changed_toml(data: bytes, rng: random.Random) -> bytes:
    """A value, a name or a header of a TOML text replaced, or lines put in."""
    lines = data.decode().splitlines()
    at = rng.randrange(len(lines))
    often = rng.choice([3, 40, 1000, 50_000, 300_000])
    value = rng.choice(
        [
            rng.choice(_VALUES)(rng),
            "0x" + "f" * often,
            rng.choice(["inf", "nan", "-inf", "1979-05-27T07:32:00Z", "07:32:00", "[[1],[2]]", "{a=1}", "-1", "1e308"]),
            "[" + "1," * often + "]",
            "{a=" * min(often, 1000) + "1" + "}" * min(often, 1000),
            f"[\n[ a{' ' * often}\n]",
            f'[\n["{"a." * often}"]\n]',
            '"""' + "\n" * often + '"""',
        ]
    )
    if "=" in lines[at] and rng.random() < 0.6:
        lines[at] = f"{lines[at].partition('=')[0]}= {value}"
    else:
        odd = ["a." * often + "a = 1", f"[{'a.' * often}a]", f"[a{' ' * often}.b]", f"['{' ' * often}']", lines[at]]
        odd += [f"x{n} = 1" for n in range(min(often, 40_000))] if rng.random() < 0.2 else [f"x = {value}"]
        lines[at:at] = odd[-40_000:] if len(odd) > 10 else [rng.choice(odd)]
    return ("\n".join(lines) + "\n").encode()


def _changed(tree: Any, rng: random.Random, raw: list[str]) -> Any:
    places = list(_places(tree))
    if not places or rng.random() < 0.02:
        return _value(rng, raw)
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(["x", key + "x", "a" * 1000])] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder[key:key] = [holder[key]] * rng.choice([1, 100])
        case 3:
            other, name = rng.choice(places)
            if name in other if isinstance(other, dict) else name < len(other):
                holder[key] = json.loads(json.dumps(other[name]))
        case _:
            holder[key] = _value(rng, raw)
    return tree


def _value(rng: random.Random, raw: list[str]) -> str:
    raw.append(rng.choice(_VALUES)(rng))
    return _RAW % (len(raw) - 1)


def _places(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from _places(value)
