"""URI templates (RFC 6570), what a match gives and refuses, and the check of URIs."""

from __future__ import annotations

import re
import string
from typing import Any, Optional

import pytest
from hypothesis import given, strategies as st

from minimcp.protocol.uri_template import (
    UriTemplate,
    check_uri,
    has_parent_segment,
    is_safe_segment,
    parse_web_url,
)

from ..drawn import drawn
from ..rows import for_each

# ---------------------------------------------------------------- templates


@for_each(
    "template",
    [
        "{",
        "}",
        "a{b",
        "a}b",
        "{}",
        "{a",
        "{a{b}}",
        "{a}}",
        "{,}",
        "{a,}",
        "{,a}",
        "{a b}",
        "{ a}",
        "{a }",
        "{a-b}",
        "{~a}",
        "{=a}",
        "{!a}",
        "{@a}",
        "{|a}",
        "{$a}",
        "{??a}",
        "{+}",
        "{?}",
        "{a:}",
        "{a:0}",
        "{a:01}",
        "{a:10000}",
        "{a:x}",
        "{a:-1}",
        "{a*:2}",
        "{a:2*}",
        "{a**}",
        "{a.}",
        "{.a.}",
        "{a..b}",
        "{..a}",
        "{%2x}",
        "{a%}",
        "{é}",
        "{a=1}",
        "{a?}",
        "{a\n}",
        "{a:1\u0661}",
        "a b",
        "a\tb",
        "a<b",
        "a>b",
        'a"b',
        "a\\b",
        "a^b",
        "a`b",
        "a|b",
        "50%",
        "%zz",
        "a\nb",
        "a\x7f",
        "\ud800",
    ],
)
def test_what_is_no_template(template: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        UriTemplate(template)


# ---------------------------------------------------------------- matching

MATCHES = [
    ("x{#f}", "x#a#b", {"f": "a#b"}), ("x{.a}", "x.tar.gz", {"a": "tar.gz"}), ("{+a*}", "1,,2", {"a": "1,,2"}),
    ("x:y", "x:y", {}), ("", "", {}), ("{a}", "b", {"a": "b"}), ("db://users/{id}", "db://users/42", {"id": "42"}),
    ("db://{t}/{id}", "db://users/42", {"t": "users", "id": "42"}), ("x/{a}", "x/two%20words", {"a": "two words"}),
    ("x/{a}", "x/stra%C3%9Fe", {"a": "straße"}), ("x/{a}", "x/%26%3F%3a", {"a": "&?:"}),
    ("x/{a}", "x/%252e%252e", {"a": "%2e%2e"}), ("x/{a}", "x/...", {"a": "..."}),
    ("{a}.{b}", "notes.tar.gz", {"a": "notes.tar", "b": "gz"}), ("{a}{b}", "x%41", {"a": "x", "b": "A"}),
    ("{a}{b}{c}", "wxyz", {"a": "wx", "b": "y", "c": "z"}), ("{a,b}", "1,2", {"a": "1", "b": "2"}),
    ("{a}-x", "1-x-x", {"a": "1-x"}), ("{a*}", "1,2%20,3", {"a": "1,2 ,3"}),
    ("file:///{+path}", "file:///a/b/c.txt", {"path": "a/b/c.txt"}),
    ("file:///{+path}", "file:////etc", {"path": "/etc"}), ("file:///{+path}", "file:///a%2Fb", {"path": "a/b"}),
    ("{+dir}/{name}", "/a/b/c", {"dir": "/a/b", "name": "c"}), ("{+a}/x/{+b}", "1/x/2/x/3", {"a": "1/x/2", "b": "3"}),
    ("p:{+url}", "p:http://h/?q=1#f", {"url": "http://h/?q=1#f"}),
    ("p:{+url}{?q}", "p:http://h/?q=1", {"url": "http://h/", "q": "1"}),
    ("p:{+a}{#f}", "p:a?b#c", {"a": "a?b", "f": "c"}), ("p:{+a}?x={b}", "p:a/c?x=1", {"a": "a/c", "b": "1"}),
    ("{+a,b}", "1,2,3", {"a": "1,2", "b": "3"}), ("{+a*}", "1,/2", {"a": "1,/2"}),
    ("x{#frag}", "x#a/b?c", {"frag": "a/b?c"}), ("x{#a,b}", "x#1,2", {"a": "1", "b": "2"}),
    ("x{/seg}", "x/a", {"seg": "a"}), ("x{/a,b}", "x/1/2", {"a": "1", "b": "2"}),
    ("x{/seg*}", "x/a/b%20c/d", {"seg": "a/b c/d"}), ("x{/seg*}/end", "x/a/end/end", {"seg": "a/end"}),
    ("x{.ext}", "x.gz", {"ext": "gz"}), ("x{.ext*}", "x.tar.gz", {"ext": "tar.gz"}),
    ("x{;a,b}", "x;b=2;a=1", {"a": "1", "b": "2"}), ("x{;a}", "x;a", {"a": ""}), ("x{;a*}", "x;a=1;a=2", {"a": "1,2"}),
    ("x{;a}/y", "x/y", {}), ("x{?q,limit}", "x?q=a&limit=3", {"q": "a", "limit": "3"}),
    ("x{?q,limit}", "x?limit=3&q=a", {"q": "a", "limit": "3"}), ("x{?q,limit}", "x?limit=3", {"limit": "3"}),
    ("x{?q,limit}", "x", {}), ("x{?q}", "x?q=", {"q": ""}), ("x{?q}", "x?q", {"q": ""}),
    ("x{?q}", "x?q=a%2Fb%26c%3Dd", {"q": "a/b&c=d"}), ("x{?q*}", "x?q=1&q=2&q=", {"q": "1,2,"}),
    ("x{?a%20b}", "x?a%20b=1", {"a%20b": "1"}), ("x{?a}{&b}", "x?b=2&a=1", {"a": "1", "b": "2"}),
    ("x{?a}{#f}", "x?a=1#z", {"a": "1", "f": "z"}), ("x{?a}{#f}", "x#z", {"f": "z"}),
    ("x{?a}&fixed=1{&b}", "x?a=0&fixed=1&b=2", {"a": "0", "b": "2"}), ("x{?a}?y={b}", "x?y=1", {"b": "1"}),
    ("x?fixed=1{&a}", "x?fixed=1&a=2", {"a": "2"}), ("x?fixed=1{&a}", "x?fixed=1", {}), ("{a}/{a}", "1/1", {"a": "1"}),
    ("{/a:1,a}", "/v/value", {"a": "value"}), ("{a}/{a:2}", "value/va", {"a": "value"}),
    ("{a:2}/{a:4}", "va/valu", {"a": "valu"}), ("{a:2}", "%C3%9Fx", {"a": "ßx"}),
    ("caf\u00e9/{a}", "caf%c3%A9/1", {"a": "1"}), ("%7E/{a}", "%7e/1", {"a": "1"}),
    ("\u00e9{a}", "%C3%A91", {"a": "1"}),
]  # fmt: skip


@for_each(("template", "uri", "values"), MATCHES)
def test_match(template: str, uri: str, values: dict[str, str]) -> None:
    assert UriTemplate(template).match(uri) == values


NO_MATCHES = [
    ("{a}/x", "a//x"), ("x:y", "x:z"), ("x:y", "x:y/"), ("", "x"), ("{a}", ""), ("x/{a}", "x/"), ("x/{a}", "x/1/2"),
    ("x/{a}", "x/1?q=2"), ("x/{a}", "x/1#f"), ("x/{a}", "x/1,2"), ("x/{a}", "x/1:2"), ("x/{a}", "X/1"),
    ("x/{a}y", "x/y"), ("x/{a}", "x/a b"), ("x/{a}", "x/a\n"), ("x/{a}", "x/ü"), ("x/{a}", "x/\ud800"),
    ("x/{a}", "x/%4"), ("x/{a}", "x/%zz"), ("{a}1", "x%41"), ("{+a}{b}", "%41"), ("%7E/{a}", "%7F/1"),
    ("x{/a,b}", "x/1"), ("x{/a*}", "x"), ("x{/a*}", "x/"), ("x{/a*}", "x/1//2"), ("x{/a*}", "x//etc"),
    ("x{/a*}", "x/1%2F2"), ("x{.a*}", "x.1%2e2"), ("x{.a*}", "x.1..2"), ("{a*}", "1,2%2C3"), ("x{?a*}", "x?a=1%2C2"),
    ("x{?a*}", "x?a=%FF"), ("x{?a}", "x?"), ("x{?a}", "x?b=1"), ("x{?a}", "x?a=1&b=1"), ("x{?a}", "x?a=1&a=1"),
    ("x{?a}", "x?a=1&"), ("x{?a}", "x?=1"), ("x{?a}", "x?A=1"), ("x{?a}", "x?a=b=c"), ("x{?a}", "x?a=/b"),
    ("x{?a}", "x?a=b+c"), ("x{?a}", "x&a=1"), ("x{;a}", "x;a=1%2F2"), ("{a}/{a}", "1/2"), ("{/a:1,a}", "/w/value"),
    ("{a:2}", "abc"), ("{a:2}/{a:4}", "va/xalu"),
]  # fmt: skip


@for_each(("template", "uri"), NO_MATCHES)
def test_no_match(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None


ASTRAY = [
    "..",
    ".",
    "%2e%2e",
    "%2E.",
    ".%2e",
    "%2e",
    "a%2Fb",
    "a%2fb",
    "%2Fetc",
    "..%2Fx",
    "a%5Cb",
    "a%5cb",
    "..%5C..",
    "%00",
    "a%00b",
    "%C0%AE%C0%AE",
    "%C0%AF",
    "%E0%80%AF",
    "%FF",
    "%ED%A0%80",
]


@for_each("text", ASTRAY)
@for_each("template", ["file:///{a}", "file:///x{/a}", "file:///x{/a*}", "f:{;a}", "{a}", "{a*}"])
def test_a_segment_stays_a_segment(template: str, text: str) -> None:
    before, _, expression = template.partition("{")
    before += {"/": "/", ";": ";a="}.get(expression[0], "")
    assert UriTemplate(template).match(before + "ok") == {"a": "ok"}
    assert UriTemplate(template).match(before + text) is None


@for_each(
    "path",
    [
        "..",
        "../x",
        "x/..",
        "a/../../etc",
        "a/%2e%2e/etc",
        "a/.%2E/b",
        "a%2F..%2Fb",
        "a/..%2fb",
        "a%5C..%5Cb",
        "..%5cx",
        "a/..?x",
        "a/..#x",
        "a%00b",
        "%FF",
        "a\\..\\b",
    ],
)
@for_each("template", ["file:///{+path}", "file:///{+a}{+b}", "file:///{a}/{+path}"])
def test_no_path_climbs(template: str, path: str) -> None:
    assert UriTemplate(template).match("file:///" + path) is None
    assert UriTemplate(template).match("file:///x/" + path) is None


@for_each("query", ["q=..", "q=..%2Fx", "q=a%2F..%2Fb", "q=%2e%2e", "q=a%5c..", "q=%00", "q=%FF"])
def test_no_parameter_climbs(query: str) -> None:
    assert UriTemplate("x:y{?q}").match("x:y?" + query) is None
    assert UriTemplate("x:y{?q*}").match("x:y?q=1&" + query) is None


def test_pieces_that_are_harmless_alone_do_not_climb_together() -> None:
    assert UriTemplate("f:/{+a}{+b}").match("f:/a/../x") is None
    assert UriTemplate("f:/{+a}.{+b}").match("f:/../x") is None


def test_the_names_stand_in_order() -> None:
    template = UriTemplate("{b}/{a:3}{?c*,b}{&d.e}")
    assert template.variables == ("b", "a", "c", "d.e") and UriTemplate("plain").variables == ()
    assert repr(template) == "<UriTemplate '{b}/{a:3}{?c*,b}{&d.e}'>"


@pytest.mark.parametrize(
    ("template", "example"),
    [
        ("", ""),
        ("{user}", "x"),
        ("f:/{a}/{+b}{#c}", "f:/x/x#x"),
        ("f:/caf\u00e9/%7e{/a,b}{.c*}", "f:/caf%C3%A9/%7E/x/x.x"),
        ("f:{;a}?b=1{&c}", "f:;x?b=1&x"),
        ("f:y{?a}{&b,c}", "f:y?x"),
        ("{?a}{&b}", "?x"),
    ],
)
def test_an_example_shows_what_stands_around_the_variables(template: str, example: str) -> None:
    assert UriTemplate(template).example == example


PARTS = {
    "a": "a",
    "b": "b",
    "/": "/",
    "-": "-",
    "%41": "%41",
    "{v}": "((?:[ab41-]|%41)+)",
    "{+v}": "((?:[ab41/-]|%41)+)",
    "{/v}": "/((?:[ab41-]|%41)+)",
    "{v,v}": "((?:[ab41-]|%41)+),((?:[ab41-]|%41)+)",
}


def _numbered(parts: list[str]) -> str:
    pieces = "".join(parts).split("v")
    return "".join(
        piece + (f"v{number}" if number < len(pieces) - 1 else "")
        for number, piece in enumerate(pieces)
    )


@drawn(100)
@given(
    parts=st.lists(st.sampled_from(sorted(PARTS)), max_size=5),
    uri=st.lists(st.sampled_from(["a", "b", "/", "-", "%41", "4", "1"]), max_size=8).map("".join),
)
def test_the_match_is_that_of_a_pattern_that_tries_everything(parts: list[str], uri: str) -> None:
    found = re.fullmatch("".join(PARTS[part] for part in parts), uri)
    wanted: Optional[dict[str, str]] = None
    if found:
        wanted = {
            f"v{number}": text.replace("%41", "A") for number, text in enumerate(found.groups())
        }
    assert UriTemplate(_numbered(parts)).match(uri) == wanted


@drawn(100)
@given(
    template=st.sampled_from([template for template, _, _ in MATCHES]),
    tail=st.text(string.ascii_letters + string.digits + "/?#&;=,.%-\\\n ü", max_size=30),
)
def test_whatever_comes_nothing_but_safe_values_are_yielded(template: str, tail: str) -> None:
    values = UriTemplate(template).match(template.partition("{")[0] + tail)
    for value in (values or {}).values():
        assert "\0" not in value
        assert not has_parent_segment(value)


@for_each(
    "template",
    [
        "{/a*}",
        "{a*}{b*}{c*}",
        "{?a*}{&b*}",
        "{+a}{+b}{+c}x",
        "x{.a*}{.b*}{.c*}!",
        "{a}{b}{c}{d}",
    ],
)
@for_each("piece", ["a", "/a", ",", "&a=1", ".", "%41", "?a=1&"])
def test_long_uris_are_no_trouble(template: str, piece: str) -> None:
    """A matcher that backtracks does not come back from these within the limit of a hanging test."""
    uri = piece * (20_000 // len(piece))
    for ending in ("", "!", "\n", "/.."):
        UriTemplate(template).match(uri + ending)


# ---------------------------------------------------------------- segments and URIs


def test_safe_segments() -> None:
    assert all(
        is_safe_segment(text) for text in ("", "a", "...", ".a", "a..b", "%2e%2e", "a:b", "-")
    )
    assert not any(
        is_safe_segment(text) for text in (".", "..", "/", "a/b", "\\", "a\\b", "\0", "a\0")
    )


def test_parent_segments() -> None:
    plain = ("..", "a/..", "../a", "a/../b", "a\\..\\b", "f:///a/../../etc", "f:/a/..?q", "f:/..#f")
    harmless = ("", ".", "a..b", "...", "a/..b", "a/.../b", "%252e%252e", "..;")
    assert all(has_parent_segment(text) for text in (*plain, "%2e%2E", ".%2e/", "a%2F..%5cb"))
    assert not any(has_parent_segment(text) for text in harmless)


@for_each(
    "uri",
    [
        "a:",
        "a:b",
        "urn:isbn:0451450523",
        "mailto:a@b.c",
        "file:///etc/hosts",
        "file:///a/../b",
        "db://users/42?x=1#y",
        "x+y-z.1:a",
        "http://h:80/",
        "http://h:/",
        "http://u:p@h/",
        "http://[::1]:80/",
        "http://[::ffff:1.2.3.4]",
        "http://[v1.a:b]/",
        "a://",
        "a:?",
        "a:#",
        "a:/?/?#/?",
        "x:%C3%9F",
        "x:!$&'()*+,;=:@-._~",
        "http://%41/",
        "x:a//b",
        "A:b",
    ],
)
def test_uris(uri: str) -> None:
    check_uri(uri)


@for_each(
    ("uri", "why"),
    [
        ("", "scheme"),
        ("a", "scheme"),
        ("/a/b", "scheme"),
        (":a", "scheme"),
        ("1a:b", "scheme"),
        ("a_b:c", "scheme"),
        ("é:c", "scheme"),
        (" a:b", "scheme"),
        ("a:b c", "' ' at character 4 must be"),
        ("a:b\n", "'\\\\n' at character 4"),
        ("a:\0", "percent-encoded"),
        ("a:é", "percent-encoded"),
        ("a:\ud800", "percent-encoded"),
        ("a:{x}", "'{' at character 3"),
        ("a:b\\c", "percent-encoded"),
        ("a:<b>", "percent-encoded"),
        ("a:%", "'%' at character 3"),
        ("a:%4", "percent-encoded"),
        ("a:%zz", "percent-encoded"),
        ("a:b#c#d", "'#' once"),
        ("a:[b]", "brackets"),
        ("a:b?[", "brackets"),
        ("a:b#]", "brackets"),
        ("a://h/[", "brackets"),
        ("a://h:x/", "host or port"),
        ("a://h:1:2/", "host or port"),
        ("a://a@b@c/", "host or port"),
        ("a://[::1/", "host or port"),
        ("a://[]/", "host or port"),
        ("a://[::g]/", "host or port"),
        ("a://[1.2.3.4]/", "host or port"),
        ("a://[fe80::1%25eth0]/", "host or port"),
        ("a://[::1]x/", "host or port"),
        ("a://x[::1]/", "host or port"),
        ("a://[v1.]/", "host or port"),
    ],
)
def test_what_is_no_uri(uri: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        check_uri(uri)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.requirement("SEC-09")
@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("http://a.example", ("http", "a.example", 80)),
        ("HTTPS://A.example:8443/b?c@d#\xe9", ("https", "a.example", 8443)),
        ("http://127.0.0.1:1/", ("http", "127.0.0.1", 1)),
        ("https://[0:0::1]:65535?", ("https", "::1", 65535)),
        ("http://1a.b_c-d.", ("http", "1a.b_c-d.", 80)),
        *(
            (url, None)
            for url in (
                "",
                "http://",
                "ftp://a",
                "http:a",
                "http://a:0",
                "http://a:65536",
                "http://a:",
                "http://1",
                "http://127.1/",
                "http://127.0.0.1./",
                "http://0x7f000001",
                "http://a.0X1",
                "http://[::1",
                "http://[:::]",
                "http://[fe80::1%25e]",
                "http://a\\b",
                "http://a/b\\c",
                "http://a/ ",
                " http://a",
                "http://a\n",
                "http://a/\x85",
                "http://\xe9",
                "http://%61",
                "http:///a",
                "ms-msdt://a",
                "http://b\u0430nk",
                "http://a\u3002b",
                "\x01http://a",
                "http://a%2eb",
                "http://u@a",
                "http://\u212a",
                "http\u017f://a",
                "http://a b",
                "http://-a",
                "http://.a",
            )
        ),
    ],
)
def test_a_url_is_taken_apart_in_the_one_way_in_which_all_programs_do(url: str, where: Any) -> None:
    if where is not None:
        assert (
            parse_web_url(url)
            == where
            == parse_web_url(url.replace("//", "//me:x@", 1), userinfo=True)
        )
        return
    with pytest.raises(ValueError, match="names a host in ASCII"):
        parse_web_url(url)
