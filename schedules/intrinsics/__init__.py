"""Instructions as TVM tensor intrinsics: a description, which is the specification, and an implementation."""
