"""Ways to quantize a model, compared by what their compiled libraries answer and how long they take."""
