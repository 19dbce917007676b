"""Facts put into weights without training: sizes, recall, attention and robustness."""
