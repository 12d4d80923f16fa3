"""`python -m int8tune` is the program `int8tune`."""

from int8tune.tuner.cli.main import main

if __name__ == "__main__":
    main()
