"""studies/bits"""
