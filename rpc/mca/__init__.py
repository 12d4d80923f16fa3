"""An estimate in place of a measurement: the cycles that LLVM's model of a core gives for a kernel's code."""
