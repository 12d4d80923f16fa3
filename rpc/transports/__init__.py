"""The ways to measure on a device, behind one contract."""
