"""Audio (paper, section 4.2): to come.

stategp-experiments audio
"""
