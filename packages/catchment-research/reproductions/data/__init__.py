"""Readers of images and texts, and the compact form of data sets."""
