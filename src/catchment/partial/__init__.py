"""Partially trainable networks: the frozen part travels as a seed, only the rest is trained."""
