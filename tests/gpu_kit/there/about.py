"""What machine this is: versions of what a step may use, one in a line."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores", flush=True)
for program in ("g++", "ld", "nvcc", "ncu", "compute-sanitizer", "nvidia-smi"):
    print(f"{program}: {shutil.which(program) or 'not here'}", flush=True)
if shutil.which("nvidia-smi"):
    query = "name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,temperature.gpu"
    words = ["nvidia-smi", f"--query-gpu={query}", "--format=csv"]
    print(subprocess.run(words, capture_output=True, text=True, timeout=15, check=False).stdout.strip())
