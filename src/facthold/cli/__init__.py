"""The command line: `facthold`."""

from facthold.cli.app import main

__all__ = ["main"]
