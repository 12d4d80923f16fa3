"""Templates for x86 CPUs."""
