"""The protocol without I/O: messages, revisions, lifecycle, URIs and URI templates."""
