"""The version of this library, as a literal: a vendored copy has no metadata to ask. Floor 0."""

VERSION = "0.1.0"
