"""studies/sizes"""
