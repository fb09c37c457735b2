"""Content in other forms: for the APIs of models, and for notebooks.

Imported with the first such use.
"""

from __future__ import annotations

import html
import json
import os
import traceback
from base64 import b64encode
from typing import Any, Callable, Optional

from .base import Json

# The types of images that models read, and that a notebook shows without HTML.
_MODEL_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NOTEBOOK_IMAGES = ("image/png", "image/jpeg", "image/gif")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def model_tool(tool: Any, name: Optional[str], member: str) -> Json:
    """Return a tool for the API of a model.

    Args:
        tool: The `Tool`.
        name: The name for the model; None means the tool's name.
        member: The member that holds the input schema.
    """
    # Some APIs require these members of the schema.
    schema = {"type": "object", "properties": {}, **tool.input_schema}
    made: Json = {"name": name or tool.name, member: schema}
    if tool.description is not None:
        made["description"] = tool.description
    return made


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


# ------------------------------------------------------------ notebooks


def mimebundle(shown: Any) -> Json:
    """Return a content block, or an object with content, in the forms that a notebook shows."""
    bundle: Json = {"text/plain": repr(shown)}
    if getattr(shown, "type", "") == "image" and shown.mime_type in _NOTEBOOK_IMAGES:
        bundle[shown.mime_type] = b64encode(shown.data).decode()
        return bundle
    content = getattr(shown, "content", shown)
    blocks = content if isinstance(content, list) else [content]
    bundle["text/html"] = "\n".join(map(_html, blocks))
    return bundle


def _html(block: Any) -> str:
    """Return a content block as HTML. It comes from a peer, so nothing in it is HTML or a script:
    an SVG image in `img` does not run scripts."""
    data = getattr(block, "data", None)
    kind = str(getattr(block, "mime_type", None)).partition("/")[0]
    if isinstance(data, bytes) and kind in ("image", "audio"):
        url = html.escape(f"data:{block.mime_type};base64,{b64encode(data).decode()}")
        return f'<img src="{url}">' if kind == "image" else f'<audio controls src="{url}"></audio>'
    return f"<pre>{html.escape(text_of(block))}</pre>"


def notebook_traceback(error: BaseException) -> list[str]:
    """Return the traceback of an exception without the frames of this package and of IPython."""
    shown = traceback.TracebackException.from_exception(error)
    part: Optional[traceback.TracebackException] = shown
    while part is not None:
        frames = [each for each in part.stack if not _is_internal(each.filename)]
        part.stack[:] = frames or part.stack[-1:]
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return "".join(shown.format()).splitlines()


def _is_internal(file: str) -> bool:
    return file.startswith(os.path.join(_PACKAGE, "")) or os.sep + "IPython" + os.sep in file
