"""Frozen recurrent networks, rebuilt bit for bit from a recipe, and the features of their states."""
