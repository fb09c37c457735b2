"""The protocol without I/O: messages, revisions, lifecycle, event streams, URI templates."""
