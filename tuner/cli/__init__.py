"""The program `int8tune`. Data goes to stdout, everything else to stderr."""
