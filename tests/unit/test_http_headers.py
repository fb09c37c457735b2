"""Headers, media types, hosts and origins."""

from __future__ import annotations

from typing import Optional

import pytest

from minimcp.http.headers import (
    Headers,
    HostPolicy,
    HttpError,
    HttpRequest,
    HttpResponse,
    accepts,
    parse_host,
    parse_origin,
)


def test_headers_have_names_without_case_and_values_without_blanks() -> None:
    headers = Headers([("Accept", " a "), ("ACCEPT", "b\t"), ("X", "")])
    assert headers.get("accept") == "a" and headers.all("aCCept") == ["a", "b"]
    assert (
        headers.get("x") == ""
        and headers.get("y") is None
        and headers.get("y", "z") == "z"
        and headers["x"] == ""
    )
    assert "X" in headers and "y" not in headers and headers.all("y") == []
    assert list(headers) == ["accept", "x"] and len(headers) == 2
    assert Headers({"A": "1"}).get("a") == "1" and list(Headers()) == []


def test_representations_show_no_values() -> None:
    request = HttpRequest("POST", "/mcp", {"Authorization": "secret"}, b"secret")
    assert "secret" not in repr(request) + repr(request.headers) + repr(
        HttpResponse(200, [], b"secret")
    )


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        (["application/json, text/event-stream"], True),
        (["*/*"], True),
        (["text/html", "application/*;q=0.5"], True),
        (["application/json;q=0"], False),
        (["application/json;q=0.000"], False),
        (["text/html"], False),
        ([], True),
        ([""], True),
        (["application/json;q=0, */*"], False),
        (["application/jsonevil"], False),
    ],
)
def test_media_types_that_a_client_accepts(accept: list[str], taken: bool) -> None:
    assert accepts(Headers([("Accept", value) for value in accept]), "application/json") is taken


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("localhost", ("localhost", None)),
        ("LocalHost:80", ("localhost", 80)),
        ("[::1]:8000", ("::1", 8000)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("localhost:65536", None),
        ("localhost:80:evil.example", None),
        ("localhost:", None),
        ("a@localhost", None),
        ("localhost/", None),
        ("", None),
        ("::1", None),
        ("local host", None),
        ("localhost,evil.example", None),
        ("localhost.", None),
        ("[::1", None),
        ("localhost:8o", None),
        ("localhost\n", None),
    ],
)
def test_a_host_is_read_whole(value: str, found: Optional[tuple[str, Optional[int]]]) -> None:
    assert parse_host(value) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("http://localhost:3000", ("http", "localhost", 3000)),
        ("HTTP://localhost", ("http", "localhost", 80)),
        ("http://localhost", ("http", "localhost", 80)),
        ("https://[::1]", ("https", "::1", 443)),
        ("null", None),
        ("http://127.0.0.1:1@evil.example", None),
        ("http://localhost/", None),
        ("file://x", None),
        ("http://localhost#x", None),
        ("http://localhost http://evil.example", None),
        ("", None),
    ],
)
def test_an_origin_is_read_whole(value: str, found: object) -> None:
    assert parse_origin(value) == found


def refusal(policy: HostPolicy, *headers: tuple[str, Optional[str]]) -> tuple[Optional[int], str]:
    try:
        policy.check(Headers([(name, value) for name, value in headers if value]))
    except HttpError as error:
        return error.status, error.message
    return None, ""


def status(policy: HostPolicy, host: Optional[str], origin: Optional[str] = None) -> Optional[int]:
    return refusal(policy, ("Host", host), ("Origin", origin))[0]


@pytest.mark.parametrize(
    ("host", "origin", "code"),
    [
        ("localhost:8000", None, None),
        ("127.0.0.1", None, None),
        ("[::1]:1", None, None),
        (None, None, 400),
        ("evil.example", None, 421),
        ("localhost.evil.example", None, 421),
        ("localhost", "http://localhost:3000", None),
        ("localhost", "https://127.0.0.1", None),
        ("localhost", "http://localhost.evil.example", 403),
        ("localhost", "null", 403),
    ],
)
def test_only_this_machine_is_admitted_by_default(
    host: Optional[str], origin: Optional[str], code: Optional[int]
) -> None:
    assert status(HostPolicy(), host, origin) == code


def test_allowed_hosts_may_name_ports() -> None:
    policy = HostPolicy(["api.example.com", "10.0.0.1:8080", "::1"])
    assert status(policy, "API.example.com:99") is None and status(policy, "[::1]:5") is None
    assert status(policy, "10.0.0.1:8080") is None and status(policy, "10.0.0.1") == 421
    assert status(policy, "localhost") == 421
    assert status(policy, "api.example.com", "https://api.example.com") is None


def test_allowed_origins_are_exact() -> None:
    policy = HostPolicy(["a.example"], ["https://b.example", "http://c.example:8080"])
    assert status(policy, "a.example", "https://b.example:443") is None
    assert status(policy, "a.example", "http://b.example") == 403
    assert status(policy, "a.example", "http://c.example:8080") is None
    assert status(policy, "a.example", "http://c.example") == 403
    assert status(HostPolicy(["a.example"], ["*"]), "a.example", "null") is None


def test_if_any_host_is_allowed_a_page_may_request_its_own() -> None:
    policy = HostPolicy(["*"])
    assert status(policy, None) is None and status(policy, "a.example", "https://a.example") is None
    assert (
        status(policy, "a.example", "https://b.example") == 403
        and status(policy, None, "https://b.example") == 403
    )


def test_two_hosts_or_two_origins_are_not_one_and_a_refusal_names_the_setting() -> None:
    assert refusal(HostPolicy(), ("Host", "localhost"), ("host", "localhost"))[0] == 400
    two = refusal(
        HostPolicy(),
        ("Host", "localhost"),
        ("Origin", "http://localhost"),
        ("Origin", "http://evil.example"),
    )
    assert two == (
        403,
        "pages from 'http://evil.example' may not send requests: name the origin in allowed_origins",
    )
    assert "allowed_hosts" in refusal(HostPolicy(), ("Host", "x.example"))[1]


def test_bad_settings_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="allowed_hosts"):
        HostPolicy(["http://localhost"])
    with pytest.raises(ValueError, match="allowed_origins"):
        HostPolicy(None, ["localhost"])
