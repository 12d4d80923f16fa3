"""A farm without boards: the real scheduler, a discrete clock, and boards that do what they are told to do wrong."""
