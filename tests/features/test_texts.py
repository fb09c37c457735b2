"""What a text stands for, and which texts a type has."""

from __future__ import annotations

import enum
from typing import Any, Dict, List, Literal, Optional, Union

import pytest
from minimcp.server.texts import choices_of, value_of

from minimcp.schema.annotations import kind_of

DEEP = "[" * 100_000


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Word(str, enum.Enum):
    X = "x"


@pytest.mark.parametrize(("annotation", "texts"), [
    (str, {"5": "5", "": "", "true": "true", "null": "null"}),
    (int, {"5": 5, "-5": -5, "5.0": 5.0, "1e2": 100.0, "05": "05", " 5": " 5", "5 ": "5 ", "x": "x", "": "", "+5": "+5",
           "true": "true", "5_0": "5_0", "٣": "٣", "-": "-", "9" * 5000: "9" * 5000}),
    (float, {"5": 5, "2.5": 2.5, "NaN": "NaN", "Infinity": "Infinity", "1e999": "1e999"}),
    (bool, {"true": True, "False": False, "TRUE": True, "1": "1", "yes": "yes", "": ""}),
    (Optional[int], {"5": 5, "": None, "null": None, "x": "x"}),
    (Optional[str], {"": "", "null": "null"}),
    (Union[int, str], {"5": "5"}),
    (Literal["a", 1, True], {"a": "a", "1": 1, "true": True, "b": "b"}),
    (Colour, {"red": "red", "2": 2, "RED": "RED"}),
    (List[int], {"[1,2]": [1, 2], "[]": [], "1": "1", '["a"]': '["a"]', "[1": "[1", f"{DEEP}]": f"{DEEP}]"}),
    (Dict[str, Any], {'{"a":1}': {"a": 1}, "{}": {}, "{]": "{]"}),
    (Any, {"5": "5", "": ""}),
], ids=str)
def test_what_a_text_stands_for(annotation: Any, texts: Dict[str, Any]) -> None:
    kind = kind_of(annotation)
    for text, value in texts.items():
        found = value_of(text, kind)
        assert (type(found), found) == (type(value), value), text[:50]


def test_which_texts_a_type_has() -> None:
    for annotation, texts in (
        (Colour, ["red", "2"]),
        (Word, ["x"]),
        (Optional[Colour], ["red", "2"]),
        (Literal["a", 1, True, None], ["a", "1", "true"]),
        (bool, ["true", "false"]),
        (Optional[bool], ["true", "false"]),
        (Union[bool, Literal["true", "x"]], ["true", "false", "x"]),
        (Union[bool, int], None),
        (Optional[int], None),
        (str, None),
        (type(None), None),
        (List[Colour], None),
        (Any, None),
    ):
        assert choices_of(kind_of(annotation).schema) == texts, annotation
