"""What kernels that are written statement by statement share on any CPU: arguments, images, rows of bytes, sums."""
