"""Content in the forms of the APIs of models. Imported with the first such use."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Callable

from .base import Json

# The types of images that models read.
_MODEL_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def for_anthropic(result: Any) -> list[Json]:
    """Return the ``content`` of a tool_result block of Anthropic's messages API."""

    def image(mime_type: str, data: str) -> Json:
        source = {"type": "base64", "media_type": mime_type, "data": data}
        return {"type": "image", "source": source}

    return _for_model(result, image)


def for_openai(result: Any) -> list[Json]:
    """Return the ``content`` of a tool message of OpenAI's chat completions API."""

    def image(mime_type: str, data: str) -> Json:
        return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}

    return _for_model(result, image)


def _for_model(result: Any, image: Callable[[str, str], Json]) -> list[Json]:
    parts: list[Json] = []
    for block in result.content:
        data = getattr(block, "data", None)
        mime_type = getattr(block, "mime_type", None)
        if isinstance(data, bytes) and mime_type in _MODEL_IMAGES:
            parts.append(image(mime_type, b64encode(data).decode()))
            continue
        text = text_of(block)
        if text:  # the APIs reject empty text
            parts.append({"type": "text", "text": text})
    if not parts:
        structured = result.structured_content
        text = "The result is empty." if structured is None else _json(structured)
        parts.append({"type": "text", "text": text})
    return parts


def text_of(block: Any) -> str:
    """Return a content block as text: its text, a link as its name and URI, or a description."""
    if block.type == "resource_link":
        return f"{block.display_name}: {block.uri}"
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return text
    data = getattr(block, "data", None)
    if not isinstance(data, bytes):
        return _json(block.to_wire())
    words = [block.type, getattr(block, "uri", None), block.mime_type, f"{len(data):,} bytes"]
    return f"[{', '.join(word for word in words if word)}]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
