"""Cells, their store and places, figures and claims; knows no study."""
