"""Templates for ARM CPUs with Advanced SIMD, written register by register."""
