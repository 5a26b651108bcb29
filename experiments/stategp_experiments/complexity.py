"""Complexity (paper, table 1): to come.

stategp-experiments complexity
"""
