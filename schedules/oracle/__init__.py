"""The oracle: a layer's outputs bit for bit, and inputs that make wrong kernels show."""
