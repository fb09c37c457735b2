"""Extensions that this library brings: off unless a server or a client names them."""
