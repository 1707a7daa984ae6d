"""Frozen maps from recordings to feature rows."""
