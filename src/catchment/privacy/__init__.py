"""Secure sums, noise with a proven bound, and the attacks that test both."""
