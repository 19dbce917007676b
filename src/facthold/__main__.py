"""`python -m facthold` is the `facthold` program."""

from facthold.cli import main

if __name__ == "__main__":
    main()
