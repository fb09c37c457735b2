"""Stores: the interface and `MemoryStore` (base.py), and one file for each other store."""
