"""Reservoirs whose recurrence is diagonal."""
