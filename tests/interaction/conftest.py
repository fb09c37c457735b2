"""A fixture that several files of this folder share."""

from .links import opened

__all__ = ["opened"]
