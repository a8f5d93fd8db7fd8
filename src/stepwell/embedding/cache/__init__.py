"""The embedding cache: vectors of texts, computed once and kept in several tiers.

Needs numpy.
"""
