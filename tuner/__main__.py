"""`python -m tuner` is the program `int8tune`."""

from tuner.cli.main import main

if __name__ == "__main__":
    main()
