"""Stores beside `MemoryStore`, which stands in engine/store.py."""
