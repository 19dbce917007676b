"""Tables of facts, the prompts that ask for them, and the problem of both."""
