"""studies/zipf"""
