"""studies/learning"""
