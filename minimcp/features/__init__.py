"""What a server offers, feature by feature: no sockets, no threads, no revision's name in here. Floor 4."""
