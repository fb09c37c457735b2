"""Fixtures that several files of this folder share."""

from .shelf import opened_shelf, shelf

__all__ = ["opened_shelf", "shelf"]
