"""How facts are learnt (section 5): gradient flow, loss curves, their stages; figure 5 and the figure of stages."""
