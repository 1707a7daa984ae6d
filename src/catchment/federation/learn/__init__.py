"""Algorithms: ways to learn together."""
