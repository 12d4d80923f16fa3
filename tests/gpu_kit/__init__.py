"""Everything that a machine with a GPU and no network needs for its first half hour: `make gpu-kit`."""
