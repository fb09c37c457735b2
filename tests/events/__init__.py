"""Events: types, polls, streams and webhooks, of our server and our client, and each alone."""
