"""Templates read and written out: RFC 6570, levels 1 to 4, and what is no template."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest

from minimcp.protocol.uri_template import UriTemplate

from .rows import for_each

VECTORS = "MINIMCP_URI_TEMPLATE_TESTS"
"""The folder of the official vectors (uri-templates/uritemplate-test), in the environment of whoever has them."""

VALUES = {
    "user": "ada",
    "note": "two words & more?",
    "folder": "/srv/data",
    "pct": "a%2Fb%zz",
    "none": None,
    "blank": "",
    "word": "straße",
    "clef": "\U0001d11e key",
    "count": 7,
    "ratio": 2.5,
    "yes": True,
    "no": False,
    "colours": ["red", "dark blue", None],
    "pair": ("x", "y"),
    "empty": [],
    "nothing": [None],
    "hollow": {},
    "map": {"a": "1", "b": "x/y", "c": None},
    "gaps": {"k": ""},
    "a.b": "dotted",
    "a%20b": "escaped",
    "9": "nine",
}

EXPANSIONS = [
    ("plain", "plain"),
    ("", ""),
    ("{user}", "ada"),
    ("x/{user}/y", "x/ada/y"),
    ("{note}", "two%20words%20%26%20more%3F"),
    ("{word}", "stra%C3%9Fe"),
    ("{clef:1}!", "%F0%9D%84%9E!"),
    ("{user:2}{user:99}", "adada"),
    ("{count},{ratio},{yes},{no}", "7,2.5,true,false"),
    ("[{none}{missing}{blank}]", "[]"),
    ("{user,none,count}", "ada,7"),
    ("{colours}", "red,dark%20blue"),
    ("{colours*}", "red,dark%20blue"),
    ("{pair}", "x,y"),
    ("{map}", "a,1,b,x%2Fy"),
    ("{map*}", "a=1,b=x%2Fy"),
    ("{+folder}/x", "/srv/data/x"),
    ("{+pct}", "a%2Fb%25zz"),
    ("{pct}", "a%252Fb%25zz"),
    ("{+note}", "two%20words%20&%20more?"),
    ("{+map*}", "a=1,b=x/y"),
    ("{#folder,user}", "#/srv/data,ada"),
    ("{#none}", ""),
    ("f{.user,count}", "f.ada.7"),
    ("f{.colours*}", "f.red.dark%20blue"),
    ("{/user,count}", "/ada/7"),
    ("{/colours*}", "/red/dark%20blue"),
    ("{/folder}", "/%2Fsrv%2Fdata"),
    ("{/map*}", "/a=1/b=x%2Fy"),
    ("{;user,blank,none}", ";user=ada;blank"),
    ("{;pair*}", ";pair=x;pair=y"),
    ("{;gaps*}", ";k"),
    ("{?user,blank,none}", "?user=ada&blank="),
    ("{?pair}", "?pair=x,y"),
    ("{?pair*}", "?pair=x&pair=y"),
    ("{?map*}", "?a=1&b=x%2Fy"),
    ("{?gaps*}", "?k="),
    ("{?empty,hollow,nothing}", ""),
    ("{?empty*,hollow*,nothing*}", ""),
    ("?fixed=1{&user}", "?fixed=1&user=ada"),
    ("{a.b}-{a%20b}-{9}", "dotted-escaped-nine"),
    ("{?a%20b}", "?a%20b=escaped"),
    ("caf\u00e9/%7e/{user}'", "caf%C3%A9/%7e/ada'"),
]


@for_each(("template", "uri"), EXPANSIONS)
def test_expansion(template: str, uri: str) -> None:
    assert UriTemplate(template).expand(VALUES) == uri


@for_each("template", [
    "{", "}", "a{b", "a}b", "{}", "{a", "{a{b}}", "{a}}", "{,}", "{a,}", "{,a}", "{a b}", "{ a}", "{a }", "{a-b}",
    "{~a}", "{=a}", "{!a}", "{@a}", "{|a}", "{$a}", "{??a}", "{+}", "{?}", "{a:}", "{a:0}", "{a:01}", "{a:10000}",
    "{a:x}", "{a:-1}", "{a*:2}", "{a:2*}", "{a**}", "{a.}", "{.a.}", "{a..b}", "{..a}", "{%2x}", "{a%}", "{é}",
    "{a=1}", "{a?}", "{a\n}", "{a:1\u0661}", "a b", "a\tb", "a<b", "a>b", 'a"b', "a\\b", "a^b", "a`b", "a|b", "50%",
    "%zz", "a\nb", "a\x7f", "\ud800",
])
def test_what_is_no_template(template: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        UriTemplate(template)


def test_an_error_shows_the_template_on_one_line() -> None:
    with pytest.raises(ValueError) as caught:
        UriTemplate("x{a\nb")
    assert str(caught.value) == "a brace is not closed in the URI template 'x{a\\nb'"


@pytest.mark.parametrize("template", ["{colours:1}", "{+map:2}", "{?empty:3}"])
def test_a_list_has_no_prefix(template: str) -> None:
    with pytest.raises(ValueError, match="has no prefix"):
        UriTemplate(template).expand(VALUES)


@for_each("value", [b"bytes", object(), {1, 2}, ["ok", ["nested"]], {"k": {"nested": 1}}])
def test_a_value_of_another_kind(value: Any) -> None:
    with pytest.raises(TypeError, match="the value of x is a text, a number, a list or a mapping"):
        UriTemplate("{x}").expand({"x": value})


def test_half_of_a_surrogate_pair_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        UriTemplate("{x}").expand({"x": "\ud800"})


@for_each(("template", "value"), [
    ("https://api/{x}/me", ".."),
    ("https://api/v1{/x}", ".."),
    ("https://api/v1/{+x}", "a/../../admin"),
    ("https://api/v1/{x}", "../../admin"),
    ("https://api/v1/{x}", "..\\admin"),
    ("https://api/v1/{+x}", "%2e%2E/admin"),
    ("https://api/v1{/x*}", ["a", "..", "b"]),
    ("https://api/v1/.{x}", "."),
])
def test_a_value_climbs_out_of_no_path(template: str, value: Any) -> None:
    with pytest.raises(ValueError, match="segment"):
        UriTemplate(template).expand({"x": value})


@for_each(("template", "value", "uri"), [
    ("https://api/find{?x}", "a/../b", "https://api/find?x=a%2F..%2Fb"),
    ("https://api/{+x}", "a?b=/../c", "https://api/a?b=/../c"),
    ("https://api/{#x}", "/../c", "https://api/#/../c"),
    ("../up/{x}", "a", "../up/a"),
    ("v/{x}", "1..2", "v/1..2"),
    ("v/{x}", "...", "v/..."),
])
def test_two_dots_elsewhere_are_two_dots(template: str, value: str, uri: str) -> None:
    assert UriTemplate(template).expand({"x": value}) == uri


def _official(folder: Path) -> Iterator[Tuple[str, Any, Any]]:
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text("utf-8")).values():
            for template, wanted in group["testcases"]:
                yield template, group["variables"], wanted


def _failures(folder: Path) -> List[str]:
    wrong = []
    for template, values, wanted in _official(folder):
        got: Any
        try:
            got = UriTemplate(template).expand(values)
        except ValueError:
            got = False
        if got not in (wanted if isinstance(wanted, list) else [wanted]):
            wrong.append(f"{template}: {got!r}, not {wanted!r}")
    return wrong


def test_the_official_vectors(tmp_path: Path) -> None:
    cases = [["{x}", "1"], ["{x", False], ["{x*}", ["2", "3"]]]
    sample = {"of this file": {"variables": {"x": "1"}, "testcases": cases}}
    (tmp_path / "sample.json").write_text(json.dumps(sample), "utf-8")
    assert _failures(tmp_path) == ["{x*}: '1', not ['2', '3']"]
    named = os.environ.get(VECTORS)
    if named:
        assert len(list(_official(Path(named)))) > 200
        assert _failures(Path(named)) == []
