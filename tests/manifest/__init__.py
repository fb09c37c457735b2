"""The rows of the manifest as plain data; `tests.requirements` makes them into one table."""
