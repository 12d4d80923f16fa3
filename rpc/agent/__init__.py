"""A board's agent: its sources in C++, how it is built, and how the host speaks with it."""
