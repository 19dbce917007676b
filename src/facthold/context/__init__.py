"""Facts in context: sequences in which a trigger is always followed by the same token, another one in each sequence."""
