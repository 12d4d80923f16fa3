"""What a machine says of itself, read from files that may be missing."""

from __future__ import annotations

from pathlib import Path

from int8tune.rpc.local.capabilities import (
    cache_bytes,
    cpu_features,
    cpu_name,
    frequency_hz,
    governor,
    read_capabilities,
)

X86 = """processor\t: 0
model name\t: Test CPU @ 3.00GHz
cpu MHz\t\t: 2999.500
flags\t\t: fpu avx2 avx512_vnni

processor\t: 1
model name\t: Test CPU @ 3.00GHz
cpu MHz\t\t: 1200.000
flags\t\t: fpu avx2 avx512_vnni
"""
ARM = """processor\t: 0
BogoMIPS\t: 38.40
Features\t: fp asimd crc32
CPU implementer\t: 0x41
CPU part\t: 0xd03

Hardware\t: Test board
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def test_x86(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": X86})
    assert cpu_name(tmp_path) == "Test CPU @ 3.00GHz"
    assert cpu_features(tmp_path) == {"fpu", "avx2", "avx512_vnni"}
    assert frequency_hz(1, tmp_path) == 1.2e9
    assert frequency_hz(None, tmp_path) == 2.9995e9
    assert frequency_hz(2, tmp_path) is None


def test_arm(tmp_path: Path) -> None:
    cpufreq = "sys/devices/system/cpu/cpu3/cpufreq"
    files = {
        "proc/cpuinfo": ARM,
        f"{cpufreq}/scaling_cur_freq": "1400000\n",
        f"{cpufreq}/scaling_governor": "performance\n",
    }
    write(tmp_path, files)
    assert cpu_name(tmp_path) == "implementer 0x41 part 0xd03"
    assert cpu_features(tmp_path) == {"fp", "asimd", "crc32"}
    assert frequency_hz(3, tmp_path) == 1.4e9
    assert frequency_hz(0, tmp_path) is None
    assert governor(3, tmp_path) == "performance"


def test_caches_of_data_only(tmp_path: Path) -> None:
    levels = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "?")]
    for index, (level, kind, size) in enumerate(levels):
        folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
        write(tmp_path, {f"{folder}/level": level, f"{folder}/type": kind, f"{folder}/size": size})
    assert cache_bytes(0, tmp_path) == {"L1": 48 << 10, "L2": 2 << 20}
    assert cache_bytes(1, tmp_path) == {}


def test_machine_without_files_has_unknown_values(tmp_path: Path) -> None:
    assert cpu_name(tmp_path)
    assert cpu_features(tmp_path) == frozenset()
    assert governor(0, tmp_path) == "unknown"
    assert frequency_hz(0, tmp_path) is None


def test_this_machine_is_complete() -> None:
    found = read_capabilities()
    assert found.cores
    assert found.llvm_cpu
    assert found.features
    assert set(found.environment) == {"cpu", "governor", "kernel", "llvm", "os", "python", "tvm"}
    assert all(found.environment.values())
