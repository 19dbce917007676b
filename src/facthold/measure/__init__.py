"""Measures: written once, for constructed and for trained models alike."""
