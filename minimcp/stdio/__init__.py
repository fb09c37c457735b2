"""The standard streams of this process, and a server as a child process."""
