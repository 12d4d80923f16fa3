"""int8 schedule templates: workloads in, exact kernels out."""
