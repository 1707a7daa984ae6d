"""Evaluation, baselines, comparison, outliers."""
