"""Fixtures that several files of this folder share, or share with other folders."""

from ..streams import every_stream_is_read
from .links import opened

__all__ = ["every_stream_is_read", "opened"]
