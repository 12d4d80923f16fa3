"""Networks as tables of int8 layers."""
