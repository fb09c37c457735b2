"""URI templates (RFC 6570), the values of a match, rejections, and the check of URIs."""

from __future__ import annotations

import re
import string
from typing import Any, Optional
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from minimcp.protocol.uri_template import UriTemplate, is_safe_segment
from minimcp.protocol.urls import check_uri, has_parent_segment, normalize_uri, parse_web_url

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
def test_invalid_templates(template: str) -> None:
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
    ("\u00e9{a}", "%C3%A91", {"a": "1"}), ("\u00e9{a}", "\u00e9\u00df", {"a": "\u00df"}),
    # characters that a path segment and a query may contain unescaped
    ("x/{a}", "x/1,2", {"a": "1,2"}), ("x/{a}", "x/1:2", {"a": "1:2"}), ("x/{a}", "x/a b", {"a": "a b"}),
    ("x/{a}", "x/ü", {"a": "ü"}), ("x/{a}", "x/a@b.c", {"a": "a@b.c"}), ("x/{a}", "x/c++", {"a": "c++"}),
    ("x/{a}", "x/O'Brien;v=[1]!$&(*)", {"a": "O'Brien;v=[1]!$&(*)"}), ("x/{a}", "x/<{^|`>", {"a": "<{^|`>"}),
    ("x{/a,b}", "x/1;2/3=4", {"a": "1;2", "b": "3=4"}), ("x{.a}", "x.a@b", {"a": "a@b"}), ("{a,b}", "1,2,3", {"a": "1,2", "b": "3"}),
    ("x{;a}", "x;a=b=c", {"a": "b=c"}), ("x{;a}", "x;a=1,2:3@", {"a": "1,2:3@"}), ("x{;a*}", "x;a=1%2C2", {"a": "1,2"}),
    ("x{?a}", "x?a=b=c", {"a": "b=c"}), ("x{?a}", "x?a=/b?c", {"a": "/b?c"}), ("x{?a}", "x?a=b+c%2B", {"a": "b+c+"}),
    ("x{?a}", "x?a=ü b", {"a": "ü b"}), ("x{?a*}", "x?a=1%2C2", {"a": "1,2"}), ("x?a={b}", "x?a=1/2?3=4", {"b": "1/2?3=4"}),
    ("x?a={b}&c={d}", "x?a=1&c=2", {"b": "1", "d": "2"}), ("x?a={b}", "x?a=1%262%23", {"b": "1&2#"}), ("x#{f}", "x#a/b?c", {"f": "a/b?c"}),
    ("{a*}", "1%2C2", {"a": "1,2"}), ("x{.a*}", "x.1%2e2", {"a": "1.2"}),
    # parameters and lists are not swallowed by the text before them
    ("x/{a}{;b}", "x/1;b=2", {"a": "1", "b": "2"}), ("x/{a}{;b}", "x/1", {"a": "1"}), ("x/{a}/y{;b}", "x/1;2/y;b=3", {"a": "1;2", "b": "3"}),
    ("x/{a}.{b}{;c}", "x/1.2;c=3", {"a": "1", "b": "2", "c": "3"}), ("p:{+a}{;b}", "p:1/2;b=3", {"a": "1/2", "b": "3"}),
    ("x?a={b}{&c}", "x?a=1&c=2", {"b": "1", "c": "2"}), ("x?a={+b}{&c}", "x?a=1&c=2", {"b": "1", "c": "2"}),
    ("{a,b*}", "1,2,3", {"a": "1", "b": "2,3"}), ("{+a,b*}", "1,2,3", {"a": "1", "b": "2,3"}), ("{a*,b}", "1,2,3", {"a": "1,2", "b": "3"}),
    ("x{/a,b*}", "x/1/2/3", {"a": "1", "b": "2/3"}), ("x{.a,b*}", "x.1.2.3", {"a": "1", "b": "2.3"}),
    # equivalent URIs; a value keeps its case, and what only a whole URI is free to leave out
    ("KB://{a}", "kb://Foo", {"a": "Foo"}), ("kb://{a}", "KB://Foo", {"a": "Foo"}), ("kb://{a}", "kb://Foo/", {"a": "Foo"}),
    ("http://Example.com/Docs/{a}", "HTTP://eXample.COM/Docs/A", {"a": "A"}), ("http://{a}.Example.com/", "http://Me.eXample.com", {"a": "Me"}),
    ("http://h:80/{a}", "http://h/1", {"a": "1"}), ("http://h/{a}", "http://h:80/1", {"a": "1"}), ("https://h/{a}", "https://h:/1", {"a": "1"}),
    ("http://h:{a}/", "http://h:80/", {"a": "80"}), ("http://{+a}", "http://h:80/", {"a": "h:80/"}), ("x://{+a}/", "x://1/2/", {"a": "1/2"}),
    ("https://h{?q}", "https://h/?q=1", {"q": "1"}), ("https://h/{?q}", "https://h?q=1", {"q": "1"}), ("https://h/{?q}", "https://h", {}),
    ("https://h/./a/{b}", "https://h/a/./1", {"b": "1"}), ("f:///{+p}", "f:///a/./b", {"p": "a/./b"}), ("x:a/{b}", "x:./a/1", {"b": "1"}),
    ("%7E/{a}", "~/1", {"a": "1"}), ("~/{a}", "%7e/1", {"a": "1"}), ("http://u@H/{a}", "http://u@h/1", {"a": "1"}),
    ("http://[::A]:80/{a}", "http://[::a]/1", {"a": "1"}), ("{s}://Host/{a}", "HTTP://hOST/1", {"s": "HTTP", "a": "1"}),
    ("x://%C3%9F/{a}", "X://\u00df/1", {"a": "1"}),
]  # fmt: skip


@for_each(("template", "uri", "values"), MATCHES)
def test_match(template: str, uri: str, values: dict[str, str]) -> None:
    assert UriTemplate(template).match(uri) == values


NO_MATCHES = [
    ("{a}/x", "a//x"), ("x:y", "x:z"), ("x:y", "x:y/"), ("", "x"), ("{a}", ""), ("x/{a}", "x/"), ("x/{a}", "x/1/2"),
    ("x/{a}", "x/1?q=2"), ("x/{a}", "x/1#f"), ("x/{a}", "X/1"), ("x:{a}", "x:A/1"), ("http://h/X/{a}", "http://h/x/1"),
    ("x/{a}y", "x/y"), ("x/{a}", "x/a\n"), ("x/{a}", "x/\x7f"), ("x/{a}", "x/\ud800"), ("x/{a}", "x/a\\b"), ("http://h/{a}", "http://h/."),
    ("http://U@h/{a}", "http://u@h/1"), ("http://h/{a}", "http://h:81/1"), ("http://h/{a}", "https://h/1"), ("x://h/{a}", "x://h:80/1"),
    ("x/{a}", "x/%4"), ("x/{a}", "x/%zz"), ("{a}1", "x%41"), ("{+a}{b}", "%41"), ("%7E/{a}", "%7F/1"),
    ("x{/a,b}", "x/1"), ("x{/a*}", "x"), ("x{/a*}", "x/"), ("x{/a*}", "x/1//2"), ("x{/a*}", "x//etc"),
    ("x{/a*}", "x/1%2F2"), ("x{.a*}", "x.1..2"), ("{a*}", "1,2%2C3"), ("x{?a*}", "x?a=1%2C2&a=3"), ("x?a={b}", "x?a=1&c=2"),
    ("x{?a*}", "x?a=%FF"), ("x{?a}", "x?"), ("x{?a}", "x?b=1"), ("x{?a}", "x?a=1&b=1"), ("x{?a}", "x?a=1&a=1"),
    ("x{?a}", "x?a=1&"), ("x{?a}", "x?=1"), ("x{?a}", "x?A=1"), ("x{?a}", "x?a=1#2"), ("x{;a}", "x;a=1/2"),
    ("x{;a}", "x;a=1?2"), ("x?a={b}", "x?a=.."), ("x{?a}", "x&a=1"), ("x{;a}", "x;a=1%2F2"), ("{a}/{a}", "1/2"), ("{/a:1,a}", "/w/value"),
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


def test_pieces_that_are_harmless_separately_do_not_climb_together() -> None:
    assert UriTemplate("f:/{+a}{+b}").match("f:/a/../x") is None
    assert UriTemplate("f:/{+a}.{+b}").match("f:/../x") is None


def test_the_names_are_in_order() -> None:
    template = UriTemplate("{b}/{a:3}{?c*,b}{&d.e}")
    assert template.variables == ("b", "a", "c", "d.e") and UriTemplate("plain").variables == ()
    assert repr(template) == "<UriTemplate '{b}/{a:3}{?c*,b}{&d.e}'>"


@pytest.mark.parametrize(
    ("template", "example"),
    [
        ("", ""),
        ("{user}", "x"),
        ("f:/{a}/{+b}{#c}", "f:/x/x#x"),
        ("f:/caf\u00e9/%7e{/a,b}{.c*}", "f:/caf%C3%A9/%7e/x/x.x"),
        ("f:{;a}?b=1{&c}", "f:;x?b=1&x"),
        ("f:y{?a}{&b,c}", "f:y?x"),
        ("{?a}{&b}", "?x"),
    ],
)
def test_an_example_shows_the_text_around_the_variables(template: str, example: str) -> None:
    assert UriTemplate(template).example == example


def _expand(template: str, values: dict[str, Any]) -> str:
    """Expand a template with texts and lists, by section 3.2.1 of the RFC."""
    signs = {
        "": ("", ",", ""), "+": ("", ",", ""), "#": ("#", ",", ""), ".": (".", ".", ""), "/": ("/", "/", ""),
        ";": (";", ";", ""), "?": ("?", "&", "="), "&": ("&", "&", "="),
    }  # fmt: skip

    def expression(found: re.Match[str]) -> str:
        sign = found[1][0] if found[1][0] in signs else ""
        first, separator, if_empty = signs[sign]
        safe = ":/?#[]@!$&'()*+,;=" if sign in ("+", "#") else ""
        pieces = []
        for spec in found[1][len(sign) :].split(","):
            name, explode = spec.rstrip("*"), spec.endswith("*")
            name, _, limit = name.partition(":")
            value = values.get(name)
            if value is None or value == []:
                continue
            members = value if isinstance(value, list) else [value[: int(limit or 10_000)]]
            texts = [quote(member, safe=safe) for member in members]
            if explode and if_empty + sign.strip("+#./"):
                pieces += [f"{name}={text}" if text else name + if_empty for text in texts]
            elif if_empty or sign == ";":
                pieces.append(f"{name}={','.join(texts)}" if any(texts) else name + if_empty)
            else:
                pieces.append((separator if explode else ",").join(texts))
        return first + separator.join(pieces) if pieces else ""

    return re.sub(r"\{([^{}]+)\}", expression, template)


@for_each(
    ("template", "uri"),
    [
        ("{a}-{b}", "1%20%2F-x%2Cy,z"),
        ("{+a}{#b}", "1%20/#x,y,z"),
        ("{+b*}{/b*}{.b*}{;b*}", "x,y,z/x%2Cy/z.x%2Cy.z;b=x%2Cy;b=z"),
        ("{/b,none}{?a,e}{&e*,none}", "/x%2Cy,z?a=1%20%2F&e=&e="),
        ("{;a:1,e}", ";a=1;e"),
        ("{?none}", ""),
    ],
)
def test_the_expansion_that_other_tests_rely_on(template: str, uri: str) -> None:
    assert _expand(template, {"a": "1 /", "b": ["x,y", "z"], "e": ""}) == uri


_CHARACTER = st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="/\\")
_SEGMENT = st.one_of(
    st.text(string.printable[:94].replace("/", "").replace("\\", ""), min_size=1, max_size=8),
    st.text(_CHARACTER, min_size=1, max_size=8),
).filter(lambda text: text not in (".", ".."))
_QUERY = st.one_of(
    st.text(string.printable[:94], max_size=8),
    st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=8),
).filter(lambda text: not has_parent_segment(text))


@drawn(400)
@given(
    template=st.sampled_from(
        [
            "users://{a}",
            "x:{a}",
            "http://h/x/{a}",
            "x://h{/a}",
            "x://h/n{.a}",
            "x://h/n{;a}",
            "x://h/{b}{;a}",
            "x://h{/b}{?a}",
            "x://h/{b,a}",
            "x://h/{b};{a}",
            "x://h{/b,a}{?c}",
            "x://h/{b}/y{;a}",
            "x://{b}/{a}{?c}{#d}",
            "x://h{/a*}",
            "x://h/{a*}",
            "x://h/n{;a*}",
            "x://h{?a*}",
            "http://{b}.Example.com:80/{a}",
            "{b}://h/{a}",
        ]
    ),
    a=_SEGMENT,
    b=_SEGMENT,
    c=_QUERY,
    d=_QUERY,
)
def test_each_value_round_trips_through_its_expansion(
    template: str, a: str, b: str, c: str, d: str
) -> None:
    d = d.replace("#", "") or "d"
    variables = UriTemplate(template).variables
    values = {name: value for name, value in zip("abcd", (a, b, c, d)) if name in variables}
    uri = _expand(template, values)
    assert UriTemplate(template).match(uri) == values
    if template.startswith("x://"):
        assert UriTemplate(template).match("X" + uri[1:]) == values


@drawn(300)
@given(
    template=st.sampled_from(
        [
            "x://h{?a}",
            "x://h{?a,b}",
            "x://h?y=1{&a}",
            "x://h?y={a}",
            "x://h?y={b}{&a}",
            "x://h?y={b}&z={a}",
            "x://h#{a}",
            "x:{+a}",
            "x:/{+a}",
            "x://h/y{#a}",
        ]
    ),
    a=_QUERY,
    b=_QUERY,
)
def test_each_value_of_a_query_round_trips_through_its_expansion(
    template: str, a: str, b: str
) -> None:
    a, b = a or "a", b or "b"
    if "+a" in template or "#a" in template:  # an escape in such a value is passed through
        a = a.replace("%", "") or "a"
    if template in ("x:{+a}", "x:/{+a}"):
        a = "a" + a.strip(".")  # neither an authority nor a dot segment
    values = {"a": a, "b": b} if "b" in UriTemplate(template).variables else {"a": a}
    if not has_parent_segment(_expand(template, values)):
        assert UriTemplate(template).match(_expand(template, values)) == values


@drawn(200)
@given(
    template=st.sampled_from(
        ["x{/a*}", "x{.a*}", "x/{a*}", "x{;a*}", "x{?a*}", "x/{b,a*}", "x{/b,a*}"]
    ),
    members=st.lists(
        _SEGMENT.filter(lambda text: not set(text) & set(".,")), min_size=1, max_size=4
    ),
    b=_SEGMENT,
)
def test_a_list_round_trips_through_its_expansion(
    template: str, members: list[str], b: str
) -> None:
    values = {"a": {"x{/": "/", "x{.": "."}.get(template[:3], ",").join(members)}
    if "b" in template:
        values["b"] = b
    uri = _expand(template, {"a": members, "b": b})
    assert UriTemplate(template).match(uri) == values


# What RFC 3986, 6.2.2 and 6.2.3, calls equivalent.
EQUIVALENT = [
    ("KBInfo://summary", "kbinfo://summary", "KBINFO://SUMMARY", "kbinfo://summary/"),
    ("https://example.com", "https://example.com/", "HTTPS://Example.COM:443", "https://example.com:/"),
    ("http://example.com/x", "http://Example.com:80/x", "http://example.com/%78", "http://example.com/y/../x"),
    ("http://h/~a", "http://h/%7ea", "http://h/%7Ea"),
    ("http://h/%C3%9F", "http://h/%c3%9f", "http://h/\u00df"),
    ("x:/a/b", "X:/a/./b", "x:/a/c/../b", "x:/a/%2e/b", "x:/../a/b"),
    ("http://[::a]/", "http://[::A]"),
    ("x://h/a/", "x://h/a/.", "x://h/a/b/.."),
    ("http://u:P@h", "http://u:P@H:80/"),
    ("http://h?q=A", "http://h/?q=A"),
    ("ws://h", "ws://h:80/"),
    ("x://a%2fb", "X://A%2Fb"),
    ("x:a b", "x:a%20b"),
]  # fmt: skip


@for_each("uris", EQUIVALENT)
def test_equivalent_uris_are_normalized_alike(uris: tuple[str, ...]) -> None:
    assert len({normalize_uri(uri) for uri in uris}) == 1


DIFFERENT = [
    ("x:A", "x:a"), ("x://h/A", "x://h/a"), ("x://h?A", "x://h?a"), ("x://h#A", "x://h#a"), ("http://U@h", "http://u@h"),
    ("http://h/%2F", "http://h//"), ("http://h:81", "http://h"), ("https://h:80", "https://h"), ("x://h:80", "x://h"),
    ("http://h/a/", "http://h/a"), ("x://", "x:///"), ("x:", "x:/"), ("http://h?", "http://h"), ("http://h/a%3Fb", "http://h/a?b"),
    ("x:/.//h", "x://h"), ("x:/a/..//h", "x://h"), ("a/../b", "b"), ("A:", "A"), ("x:%41%zz", "x:A%z"), ("x:a+b", "x:a%20b"),
]  # fmt: skip


@for_each(("one", "other"), DIFFERENT)
def test_other_uris_are_not(one: str, other: str) -> None:
    assert normalize_uri(one) != normalize_uri(other)


def test_values_in_a_host_can_keep_their_case() -> None:
    assert normalize_uri("Hello://World/./x", keep_values=True) == "hello://World/x"
    assert normalize_uri("HTTP://World:80", keep_values=True) == "http://world"


@drawn(400)
@given(
    uri=st.one_of(
        st.text("aB:/?#.@[]%24eF1&;=+-\\ \u00fc\ud800\0\n80", max_size=25),
        st.lists(
            st.sampled_from(
                [
                    "http",
                    ":",
                    "//",
                    "/",
                    "..",
                    ".",
                    "%2e",
                    "%2F",
                    "%41",
                    "A",
                    "?",
                    "#",
                    "@",
                    ":80",
                    "[::A]",
                    "%",
                    "4",
                    "\\",
                ]
            ),
            max_size=12,
        ).map("".join),
    )
)
def test_normalizing_twice_changes_nothing(uri: str) -> None:
    normal = normalize_uri(uri)
    assert normalize_uri(normal) == normal
    kept = normalize_uri(uri, keep_values=True)
    assert normalize_uri(kept, keep_values=True) == kept
    assert normalize_uri(kept) == normal


@for_each(
    ("one", "other", "same"),
    [
        ("KB://{a}", "kb://{a}", True),
        ("http://H:80/%7e{/a}{?b}", "http://h/~{/a}{?b}", True),
        ("http://h{?a}", "http://h/{?a}", False),
        ("x://{+a}", "x://{+a}/", False),
        ("x:{a}", "x:{A}", False),
        ("x:{a}", "x:{b}", False),
        ("x:{a}", "x:{+a}", False),
    ],
)
def test_templates_are_compared_by_their_texts(one: str, other: str, same: bool) -> None:
    assert (UriTemplate(one).normalized == UriTemplate(other).normalized) is same
    assert UriTemplate(UriTemplate(one).normalized).normalized == UriTemplate(one).normalized


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
def test_every_input_yields_only_safe_values(template: str, tail: str) -> None:
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
def test_long_uris_are_matched_quickly(template: str, piece: str) -> None:
    """A matcher that backtracks does not finish these within the time limit of a test."""
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
        ("a:b#c#d", "'#' may occur only once"),
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
def test_invalid_uris(uri: str, why: str) -> None:
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
def test_a_url_is_parsed_only_if_all_programs_agree(url: str, where: Any) -> None:
    if where is not None:
        assert (
            parse_web_url(url)
            == where
            == parse_web_url(url.replace("//", "//me:x@", 1), userinfo=True)
        )
        return
    with pytest.raises(ValueError, match="have an unambiguous host in ASCII"):
        parse_web_url(url)
