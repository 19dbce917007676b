"""How large a model must be for a table of facts, before it is built: laws that were fitted to measured sizes."""
