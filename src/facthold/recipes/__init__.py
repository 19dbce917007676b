"""All that is known of each way to make a memory or a transformer."""
