"""Frozen recurrent networks, rebuilt bit for bit from a recipe, and features of their states."""
