"""Other libraries' int8 kernels, each behind the same contract. They are imported in their own processes only."""
