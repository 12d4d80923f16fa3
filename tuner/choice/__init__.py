"""The form of each layer of a float model, chosen by measured time and accuracy."""
