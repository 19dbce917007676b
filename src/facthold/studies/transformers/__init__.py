"""How many facts trained transformers hold: figures 4, 7, 8 and 9."""
