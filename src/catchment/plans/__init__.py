"""Plans as files: one TOML file says what is run, on which data, and how it is protected."""
