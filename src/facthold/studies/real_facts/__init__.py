"""studies/real_facts"""
