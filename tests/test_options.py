"""Options of a client that are wrong: the message names the option, what it takes and what came."""

from __future__ import annotations

from typing import Any

import pytest

from minimcp import Server, connect

from .rows import for_each

NUMBER, FLAG = "a number of seconds or None", "True or False"


@for_each(("name", "what", "wrong"), [
    ("restart", FLAG, "yes"), ("cache", FLAG, None), ("send_shutdown", FLAG, 1),
    ("extensions", "a mapping or None", "x"),
    ("client_info", "an Implementation, a mapping or None", "x"),
    ("timeout", NUMBER, "x"), ("probe_timeout", NUMBER, "x"), ("connect_timeout", NUMBER, "x"),
])
def test_an_option_of_a_client_is_refused_by_name(name: str, what: str, wrong: Any) -> None:
    with pytest.raises(TypeError) as caught:
        connect(Server("s"), **{name: wrong})
    assert str(caught.value).startswith(f"{name} is {what}, not ") and repr(wrong) in str(caught.value)
