"""studies/memories"""
