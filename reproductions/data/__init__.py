"""Readers of images and texts."""
