"""One training engine for every model of this project."""
