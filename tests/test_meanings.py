"""Which exception an error becomes, by its code, the method and the revision."""

from __future__ import annotations

from typing import Any

import pytest

from minimcp import (
    CapabilityNotSupported,
    InvalidParams,
    MethodNotFound,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    ToolError,
)
from minimcp.protocol.meanings import exception_of
from minimcp.protocol.messages import Failure
from minimcp.protocol.versions import BY_NAME

from .answering import R1, R2, R4, R5, REVISIONS

READ, CALL, GET, COMPLETE = "resources/read", "tools/call", "prompts/get", "completion/complete"
HANDSHAKE = REVISIONS[:-1]


def kind_of(code: int, method: str, revision: str, message: str = "no", data: Any = None) -> Any:
    error = exception_of(Failure(1, code, message, data), method, BY_NAME[revision])
    if not isinstance(error, ToolError):
        assert isinstance(error, RpcError) and error.from_peer
        assert (error.code, error.message, error.data) == (code, message, data)
    return type(error)


@pytest.mark.requirement("SEED-02", "SEED-03", "SEED-04", "SEED-05", "SEED-32", "M:ERR-3", "M:ERR-5")
def test_codes_of_the_paraphrase() -> None:
    for code, method, then, now in (
        (-32001, READ, ResourceNotFound, RpcError),
        (-32001, CALL, RpcError, RpcError),
        (-32002, READ, ResourceNotFound, ResourceNotFound),
        (-32002, "resources/subscribe", ResourceNotFound, ResourceNotFound),
        (-32003, CALL, ToolError, RpcError),
        (-32004, CALL, InvalidParams, RpcError),
        (-32005, GET, InvalidParams, RpcError),
        (-32006, "sampling/createMessage", CapabilityNotSupported, RpcError),
        (-32007, CALL, CapabilityNotSupported, RpcError),
        (-32008, CALL, RpcError, RpcError),
        (-32602, READ, InvalidParams, InvalidParams),
        (-32601, READ, MethodNotFound, MethodNotFound),
        (7, CALL, RpcError, RpcError),
    ):
        for revision in HANDSHAKE:
            assert kind_of(code, method, revision) is then, (code, method)
        assert kind_of(code, method, R5) is now, (code, method)


@pytest.mark.requirement("SEED-02", "M:ERR-5", "M:RES-3")
def test_a_resource_that_is_not_there_or_not_for_us() -> None:
    for message, wanted in (
        ("Resource not found", ResourceNotFound), ("Access denied", ResourceAccessDenied),
        ("FORBIDDEN", ResourceAccessDenied), ("", ResourceNotFound),
    ):
        for revision in REVISIONS:
            assert kind_of(-32002, READ, revision, message) is wanted
            assert kind_of(-32602, READ, revision, message, {"uri": "a:b"}) is wanted
        assert kind_of(-32001, READ, R4, message) is ResourceNotFound
    about = {"uri": "a:b"}
    for method, data in ((CALL, about), (READ, "uri"), (READ, {}), (READ, None)):
        for revision in REVISIONS:
            assert kind_of(-32602, method, revision, "denied", data) is InvalidParams


@pytest.mark.requirement("COMP-12")
def test_a_capability_that_is_not_there() -> None:
    for revision in REVISIONS:
        assert kind_of(-32601, READ, revision, "no", {"requiredCapabilities": {"roots": {}}}) is CapabilityNotSupported
        assert kind_of(-32601, READ, revision, "no", {"other": 1}) is MethodNotFound
    assert kind_of(-32601, COMPLETE, R1) is CapabilityNotSupported
    assert kind_of(-32601, COMPLETE, R2) is MethodNotFound and kind_of(-32602, COMPLETE, R1) is InvalidParams


@pytest.mark.requirement("SEED-03")
def test_a_tool_that_failed() -> None:
    failed = exception_of(Failure(1, -32003, "why", {"d": 1}), CALL, BY_NAME[R1])
    assert isinstance(failed, ToolError) and str(failed) == "why"
    assert failed.result.is_error and failed.result.text == "why"
    cause: Any = failed.__cause__
    assert (cause.code, cause.data) == (-32003, {"d": 1})
