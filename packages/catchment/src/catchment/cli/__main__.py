"""`python -m catchment.cli` is the command line too."""

from catchment.cli import main

if __name__ == "__main__":
    main()
