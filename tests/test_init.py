"""The public names."""

from __future__ import annotations

import pytest

import minimcp

from .support import run_python

SERVER = """
    Server Context ToolError RpcError InvalidParams Cancelled Declined LogHandler Serial current_context Completion
    Text Image Audio ResourceLink EmbeddedResource CallToolResult
    Answer Elicit ElicitUrl Sample ListRoots SampleResult Root CapabilityNotSupported
"""
CLIENT = """
    connect connect_all Client Group StdioServer CancelToken Refused UnsupportedRevision ProtocolViolation Change
    Implementation ConnectionLost Tool Resource ResourceTemplate Prompt ReadResourceResult GetPromptResult
    ElicitRequest SampleRequest LogMessage Progress PromptMessage
"""
ERRORS = """
    McpError RpcError InvalidRequest InvalidParams MethodNotFound InternalError ResourceNotFound ResourceAccessDenied
    UnsupportedRevision CapabilityNotSupported UrlElicitationRequired RequestStateRejected ToolError ProtocolViolation
    ConnectionFailed ConnectionLost RequestTimeout Cancelled Refused Declined AuthorizationError
"""


def test_what_users_write_about_is_a_public_name() -> None:
    """Read by hand from the three pages on servers, clients and errors: each name a user may have to write."""
    for name in f"{SERVER} {CLIENT} {ERRORS}".split():
        assert name in minimcp.__all__ and getattr(minimcp, name).__name__ == name


def test_every_public_name_is_there() -> None:
    assert sorted(minimcp.__all__) == minimcp.__all__ == sorted(set(minimcp.__all__))
    for name in minimcp.__all__:
        assert getattr(minimcp, name) is not None and name in dir(minimcp)
    assert set(" ".join(minimcp._LATE.values()).split()) - {"testing"} <= set(minimcp.__all__)
    misspelt = "Sever"
    with pytest.raises(AttributeError, match="'minimcp' has no attribute 'Sever'"):
        getattr(minimcp, misspelt)


def test_what_tests_of_a_server_need_is_there_after_one_import() -> None:
    done = run_python(["-c", "import minimcp; minimcp.testing.context().progress(1); minimcp.testing.Transcript()"])
    assert (done.returncode, done.stderr) == (0, b"")
