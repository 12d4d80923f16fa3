"""Templates for any CPU that TVM's LLVM knows."""
