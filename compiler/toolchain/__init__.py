"""What makes code of sources and objects: linker, NVRTC."""
