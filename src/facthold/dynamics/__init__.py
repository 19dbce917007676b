"""How facts are learnt: gradient flow, its reduced equations, and the stages of a loss curve (section 5)."""
