"""studies/constructions"""
