"""What an aarch64 instruction does to the general registers: enough to know how often each loop runs.

A kernel's loops count; what it loads from its arguments does not decide where it goes. So numbers are computed, and
what comes from memory that the kernel did not write itself is zero, or an address where 64 bits are loaded. Vector
registers have no values.

Names and semantics: Arm Architecture Reference Manual for A-profile, chapter C6.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Any

from int8tune.rpc.mca.state import ADDRESS_STEP, State, to_signed

MASK = (1 << 64) - 1
SP, ZERO = 31, 32
_REGISTER = re.compile(r"^([wx])(\d{1,2}|zr)$")
_VECTOR = re.compile(r"^[bhsdqv]\d")


Effect = Callable[[State], None]


def split_operands(text: str) -> list[str]:
    """Operands, each with its brackets and braces."""
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(text):
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()] if text else []


def register_of(name: str) -> tuple[int, int] | None:
    """Number and width of a general register."""
    if name in ("sp", "wsp"):
        return SP, 64 if name == "sp" else 32
    match = _REGISTER.match(name)
    if not match:
        return None
    number = ZERO if match[2] == "zr" else int(match[2])
    return (number, 64 if match[1] == "x" else 32) if number <= ZERO else None


def number_of(text: str) -> int:
    """An immediate, 0 where it is none."""
    try:
        return int(text.lstrip("#"), 0)
    except ValueError:
        return 0


def effect_of(mnemonic: str, operands: str) -> Effect | None:
    """What an instruction does that does not branch; None where it does nothing to general registers or memory."""
    parts = split_operands(operands)
    maker = _MAKERS.get(mnemonic)
    if maker is not None and parts and not _VECTOR.match(parts[0]):
        return maker(mnemonic, parts)
    if "[" in operands and mnemonic.startswith(("ld", "st", "prf")):
        return _memory(mnemonic, parts)
    target = register_of(parts[0]) if parts else None
    return _set(target[0], lambda _: 0, target[1]) if target else None


def _set(register: int, value: Callable[[State], int], bits: int) -> Effect:
    mask = (1 << bits) - 1

    def effect(state: State) -> None:
        result = value(state) & mask
        if register != ZERO:
            state.registers[register] = result

    return effect


def value_of(parts: list[str], bits: int) -> Callable[[State], int]:
    """The last operand: an immediate or a register, shifted or extended by what follows it."""
    if parts[0].startswith("#") or parts[0][:1].isdigit() or parts[0].startswith("-"):
        shift = number_of(parts[1].split()[1]) if len(parts) > 1 else 0
        constant = number_of(parts[0]) << shift
        return lambda _: constant
    found = register_of(parts[0])
    if found is None:
        return lambda _: 0
    number, width = found
    kind, count = _modifier(parts[1]) if len(parts) > 1 else ("", 0)
    mask = (1 << min(width, bits)) - 1

    def value(state: State) -> int:
        return _modified(state.registers[number] & mask, kind, count, min(width, bits))

    return value


def _modifier(text: str) -> tuple[str, int]:
    words = text.split()
    return words[0], number_of(words[1]) if len(words) > 1 else 0


def _modified(value: int, kind: str, count: int, bits: int) -> int:
    if kind in ("", "lsl"):
        return value << count
    if kind == "lsr":
        return value >> count
    if kind == "asr":
        return to_signed(value, bits) >> count
    if kind == "ror":
        return ((value >> count) | (value << (bits - count))) & ((1 << bits) - 1)
    width = {"b": 8, "h": 16, "w": 32, "x": 64}[kind[-1]]
    narrow = value & ((1 << width) - 1)
    return (to_signed(narrow, width) if kind[0] == "s" else narrow) << count


def _binary(mnemonic: str, parts: list[str]) -> Effect:
    """Additions and logic of two operands, with or without flags."""
    name, sets_flags = (mnemonic[:-1], True) if mnemonic in ("adds", "subs", "ands", "bics") else (mnemonic, False)
    target, bits = _target_of(parts[0])
    left, right = value_of([parts[1]], bits), value_of(parts[2:], bits)
    operate, mask = _OPERATIONS[name], (1 << bits) - 1

    def effect(state: State) -> None:
        a, b = left(state) & mask, right(state) & mask
        result = operate(a, b) & mask
        if name == "and":
            state.note_steps(result, b + 1)
        if sets_flags:
            state.bits = bits
            state.left, state.right = (a, b) if name == "sub" else (a, -b & mask) if name == "add" else (result, 0)
        if target != ZERO:
            state.registers[target] = result

    return effect


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "orr": lambda a, b: a | b,
    "eor": lambda a, b: a ^ b,
    "bic": lambda a, b: a & ~b,
    "orn": lambda a, b: a | ~b,
    "eon": lambda a, b: a ^ ~b,
    "lslv": lambda a, b: a << (b & 63),
    "lsrv": lambda a, b: a >> (b & 63),
}


def _target_of(name: str) -> tuple[int, int]:
    return register_of(name) or (ZERO, 64)


def _move(mnemonic: str, parts: list[str]) -> Effect:
    target, bits = _target_of(parts[0])
    shift = number_of(parts[2].split()[1]) if len(parts) > 2 else 0
    constant = number_of(parts[1]) << shift
    if mnemonic == "movk":
        kept = ~(0xFFFF << shift)
        return _set(target, lambda state: (state.registers[target] & kept) | constant, bits)
    if mnemonic == "movn":
        return _set(target, lambda _: ~constant, bits)
    return _set(target, value_of(parts[1:2], bits) if shift == 0 else lambda _: constant, bits)


def _multiply(mnemonic: str, parts: list[str]) -> Effect:
    """MADD and its like: a product that is added to, or taken from, a third operand."""
    target, bits = _target_of(parts[0])
    long = mnemonic[0] if mnemonic.endswith("l") else ""
    width = 32 if long else bits
    a, b = (value_of([part], width) for part in parts[1:3])
    addend = value_of(parts[3:4], bits) if len(parts) > 3 else lambda _: 0
    sign = -1 if "sub" in mnemonic else 1

    def value(state: State) -> int:
        left, right = a(state), b(state)
        if long == "s":
            left, right = to_signed(left, 32), to_signed(right, 32)
        return addend(state) + sign * left * right

    return _set(target, value, bits)


def _high(mnemonic: str, parts: list[str]) -> Effect:
    """The high half of a product, with which numbers are divided."""
    target, bits = _target_of(parts[0])
    a, b = value_of([parts[1]], 64), value_of([parts[2]], 64)

    def value(state: State) -> int:
        left, right = a(state), b(state)
        if mnemonic == "smulh":
            left, right = to_signed(left, 64), to_signed(right, 64)
        product = left * right
        state.note_steps(product & MASK, 1 << 64)
        return product >> 64

    return _set(target, value, bits)


def _divide(mnemonic: str, parts: list[str]) -> Effect:
    target, bits = _target_of(parts[0])
    a, b = value_of([parts[1]], bits), value_of([parts[2]], bits)

    def value(state: State) -> int:
        left, right = a(state), b(state)
        if mnemonic == "sdiv":
            left, right = to_signed(left, bits), to_signed(right, bits)
        if right == 0:
            return 0
        quotient, rest = divmod(abs(left), abs(right))
        state.note_steps(rest, abs(right))
        return quotient if (left < 0) == (right < 0) else -quotient

    return _set(target, value, bits)


def _bit_field(mnemonic: str, parts: list[str]) -> Effect:
    """UBFM, SBFM, BFM and what llvm-objdump prints for them."""
    target, bits = _target_of(parts[0])
    source = value_of([parts[1]], bits)
    numbers = [number_of(part) for part in parts[2:4]]
    kind, (rotate, last) = _as_bit_field_move(mnemonic, numbers, bits)
    width = last - rotate + 1 if last >= rotate else last + 1
    place = 0 if last >= rotate else bits - rotate
    mask = (1 << width) - 1

    def value(state: State) -> int:
        whole, low = source(state), rotate if last >= rotate else 0
        if low:
            state.note_steps(whole & ((1 << low) - 1), 1 << low)
        field_value = (whole >> low) & mask
        if kind == "s":
            return to_signed(field_value, width) << place
        if kind == "u":
            return field_value << place
        return (state.registers[target] & ~(mask << place)) | (field_value << place)

    return _set(target, value, bits)


def _as_bit_field_move(mnemonic: str, numbers: list[int], bits: int) -> tuple[str, tuple[int, int]]:
    """The letter of UBFM, SBFM or BFM, and its two numbers."""
    kind = "" if mnemonic.startswith("bf") else mnemonic[0]
    if mnemonic.endswith("bfm"):
        return kind, (numbers[0], numbers[1])
    if mnemonic.endswith(("x", "xil")):
        return kind, (numbers[0], numbers[0] + numbers[1] - 1)
    return kind, ((bits - numbers[0]) % bits, numbers[1] - 1)


def _shift(mnemonic: str, parts: list[str]) -> Effect:
    target, bits = _target_of(parts[0])
    source, count = value_of([parts[1]], bits), value_of([parts[2]], bits)

    def value(state: State) -> int:
        whole, places = source(state), count(state) % bits
        if mnemonic != "lsl":
            state.note_steps(whole & ((1 << places) - 1), 1 << places)
        return _modified(whole, mnemonic, places, bits)

    return _set(target, value, bits)


def _extend(mnemonic: str, parts: list[str]) -> Effect:
    target, bits = _target_of(parts[0])
    return _set(target, value_of([parts[1], mnemonic], 64), bits)


_CHANGES: dict[str, Callable[[int], int]] = {
    "csel": lambda value: value,
    "csinc": lambda value: value + 1,
    "csinv": lambda value: ~value,
    "csneg": lambda value: -value,
}


def _select(mnemonic: str, parts: list[str]) -> Effect:
    target, bits = _target_of(parts[0])
    first, second, condition = value_of([parts[1]], bits), value_of([parts[2]], bits), parts[3]
    change = _CHANGES[mnemonic]
    return _set(target, lambda state: first(state) if state.holds(condition) else change(second(state)), bits)


def _compare_if(mnemonic: str, parts: list[str]) -> Effect:
    _, bits = _target_of(parts[0])
    left, right, condition = value_of([parts[0]], bits), value_of([parts[1]], bits), parts[3]
    flags, mask = number_of(parts[2]), (1 << bits) - 1

    def effect(state: State) -> None:
        if state.holds(condition):
            b = right(state)
            state.left, state.right, state.bits = left(state), (-b if mnemonic == "ccmn" else b) & mask, bits
        else:  # zero, then not below, then negative
            state.left, state.right, state.bits = (0 if flags & 4 else 1 if flags & 2 else mask), 0, bits

    return effect


def _address(mnemonic: str, parts: list[str]) -> Effect:  # noqa: ARG001
    target, _ = _target_of(parts[0])
    fixed = (zlib.crc32(parts[1].encode()) + 1) * ADDRESS_STEP & MASK
    return _set(target, lambda _: fixed, 64)


def _memory(mnemonic: str, parts: list[str]) -> Effect:
    """A load or store: the general registers it moves, and the base register it may change."""
    at = next(index for index, part in enumerate(parts) if part.startswith("["))
    moved, inner = parts[:at], split_operands(parts[at].strip("!")[1:-1])
    base = _target_of(inner[0])[0]
    offset = value_of(inner[1:], 64) if len(inner) > 1 else lambda _: 0
    before, behind = parts[at].endswith("!"), value_of(parts[at + 1 :], 64) if len(parts) > at + 1 else None
    size = _access_size(mnemonic, moved)
    registers = [register_of(name) for name in moved]
    is_load, is_signed = mnemonic.startswith("ld"), mnemonic.startswith(("ldrs", "ldurs", "ldps"))

    def effect(state: State) -> None:
        start = state.registers[base] & MASK
        address = start if behind else (start + offset(state)) & MASK
        for index, found in enumerate(registers):
            if found is None:
                continue
            number, bits = found
            place = (address + index * size) & MASK
            if not is_load:
                state.memory[place] = state.registers[number]
            elif number != ZERO:
                value = state.load(place, size)
                state.registers[number] = (to_signed(value, 8 * size) if is_signed else value) & ((1 << bits) - 1)
        if before or behind:
            state.registers[base] = (address if before else start + (behind(state) if behind else 0)) & MASK

    return effect


def _access_size(mnemonic: str, moved: list[str]) -> int:
    if mnemonic.endswith("b"):
        return 1
    if mnemonic.endswith("h"):
        return 2
    if mnemonic.endswith("sw"):
        return 4
    found = register_of(moved[0]) if moved else None
    return found[1] // 8 if found else 8


def _make(names: str, maker: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), maker)


_MAKERS: dict[str, Callable[[str, list[str]], Effect]] = {
    **_make("add adds sub subs and ands orr orn eor eon bic bics lslv lsrv", _binary),
    **_make("mov movz movn movk", _move),
    **_make("madd msub smaddl umaddl smsubl umsubl mul", _multiply),
    **_make("smulh umulh", _high),
    **_make("sdiv udiv", _divide),
    **_make("ubfm sbfm bfm ubfx sbfx bfxil ubfiz sbfiz bfi", _bit_field),
    **_make("lsl lsr asr", _shift),
    **_make("sxtw sxth sxtb uxtw uxth uxtb", _extend),
    **_make("csel csinc csinv csneg", _select),
    **_make("ccmp ccmn", _compare_if),
    **_make("adr adrp", _address),
}
