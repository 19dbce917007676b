"""Constructions: weights in closed form or from a convex problem, as the models that training returns."""
