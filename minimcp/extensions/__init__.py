"""Extensions that belong to the library. They have no effect until a server or a client names
them."""
