"""Reservoirs: recipe, weights, kernels, and the features made of their states."""
