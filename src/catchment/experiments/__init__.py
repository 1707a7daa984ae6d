"""Published tables, run again: on which data, with which settings, beside the papers' figures."""
