"""studies/transformers"""
