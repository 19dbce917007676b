"""The sizes that tables need, which `plan` is calibrated by, and whether its sizes hold."""
