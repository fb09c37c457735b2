"""What is hostile on purpose: the servers that clients are let loose on, and settings for subjects in Python."""
