"""Differential privacy: clipping, noise, budgets."""
