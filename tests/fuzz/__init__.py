"""Every reader of files against hostile ones: `make fuzz`, or `python -m tests.fuzz`."""
