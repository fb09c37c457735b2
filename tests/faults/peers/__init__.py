"""Subjects for other people's libraries, run in environments that have these; they are no part of CI."""
