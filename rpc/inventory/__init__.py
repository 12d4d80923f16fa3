"""The boards of a farm: values, and the file `farm.toml` that has them."""
