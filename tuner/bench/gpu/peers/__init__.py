"""Other libraries that compute int8 layers on a GPU."""
