"""Ways for bytes to and from an agent: a pipe, a socket, SSH."""
