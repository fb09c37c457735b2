"""The client that the official conformance suite drives, from the public interface only:
``client.py URL``.

The suite names the scenario and the revision in the environment, and gives some scenarios a
context, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import requests

import minimcp

SECONDS = 25.0
CONTEXT: Dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


def call_sum(client: minimcp.Client) -> None:
    client.list_tools()
    client.call_tool("add_numbers", {"a": 5, "b": 3})


def list_only(client: minimcp.Client) -> None:
    """List the tools; these servers do not declare that they have any."""
    client.request("tools/list")


def call_each(client: minimcp.Client) -> None:
    for tool in client.list_tools():
        client.call_tool(tool.name, {"region": "us-west1"}, raise_on_error=False)


def call_as_told(client: minimcp.Client) -> None:
    client.list_tools()
    for call in CONTEXT["toolCalls"]:
        client.call_tool(call["name"], call.get("arguments"))


def use_everything(client: minimcp.Client) -> None:
    """Call every tool with a header of its own."""
    for tool in client.list_tools():
        client.call_tool(tool.name, {})
    for resource in client.list_resources():
        client.read_resource(resource.uri)
    for prompt in client.list_prompts():
        client.get_prompt(prompt.name)


def call_named(*names: str) -> Callable[[minimcp.Client], None]:
    """List the tools, and call these without arguments."""

    def run(client: minimcp.Client) -> None:
        client.list_tools()
        for name in names:
            client.call_tool(name, {})

    return run


def echo_schema(client: minimcp.Client) -> None:
    """Hand a schema back as it was listed."""
    schemas = {tool.name: tool.input_schema for tool in client.list_tools()}
    client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


def call_test_tool(client: minimcp.Client) -> None:
    client.list_tools()
    client.call_tool("test-tool", {})


def list_skills(client: minimcp.Client) -> None:
    client.list_skills()


def read_skills(client: minimcp.Client) -> None:
    """Read the other files only of skills whose SKILL.md equals its entry. Here there is none."""
    for skill in client.list_skills():
        try:
            client.read_skill(skill)
        except minimcp.SkillError as error:
            print(error)
        else:
            skill.read("references/FORMS.md")


SCENARIOS: Dict[str, Callable[[minimcp.Client], None]] = {
    "initialize": list_only,
    "tools_call": call_sum,
    "elicitation-sep1034-client-defaults": call_named("test_client_elicitation_defaults"),
    "sse-retry": call_named("test_reconnection"),
    "request-metadata": list_only,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_each,
    "json-schema-ref-no-deref": call_named(),
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": call_named(
        "test_mrtr_echo_state",
        "test_mrtr_unrelated",
        "test_mrtr_no_state",
        "test_mrtr_no_result_type",
    ),
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": read_skills,
    "sep-2640-client-verify-size": read_skills,
    "sep-2640-client-verify-frontmatter": read_skills,
}


AUTHORIZATION = "auth/"
REDIRECT_URI = "http://localhost:3000/callback"
CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"


class Browser:
    """A person who agrees to everything; the page redirects at once."""

    def __init__(self) -> None:
        self.came = ""

    def open(self, url: str) -> None:
        self.came = requests.get(url, allow_redirects=False, timeout=SECONDS).headers["Location"]

    def wait(self, state: str, timeout: float) -> str:
        return self.came


def issuer_of(url: str) -> str:
    """Return the issuer that an operator would have configured with the credentials."""
    if "issuer" in CONTEXT:
        return str(CONTEXT["issuer"])
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
    for place in (root + parts.path, root):
        response = requests.get(place, timeout=SECONDS)
        if response.ok:
            return str(response.json()["authorization_servers"][0])
    raise LookupError(f"{url} names no authorization server")


def authorization(scenario: str, url: str) -> Any:
    """How to get tokens in a scenario of authorization."""
    if scenario == "auth/client-credentials-jwt":
        return minimcp.ClientCredentials(
            CONTEXT["client_id"],
            private_key=CONTEXT["private_key_pem"],
            algorithm=CONTEXT["signing_algorithm"],
            issuer=issuer_of(url),
        )
    if scenario == "auth/client-credentials-basic":
        return minimcp.ClientCredentials(
            CONTEXT["client_id"], CONTEXT["client_secret"], issuer=issuer_of(url)
        )
    if scenario == "auth/wif-jwt-bearer":
        return minimcp.WorkloadIdentity(
            CONTEXT["valid_jwt"], CONTEXT["client_id"], issuer=issuer_of(url)
        )
    if scenario == "auth/enterprise-managed-authorization":
        return minimcp.EnterpriseManaged(
            CONTEXT["client_id"],
            CONTEXT["client_secret"],
            id_token=CONTEXT["idp_id_token"],
            idp_token_endpoint=CONTEXT["idp_token_endpoint"],
            idp_client_id=CONTEXT["idp_client_id"],
            issuer=issuer_of(url),
        )
    browser = Browser()
    return minimcp.SignIn(
        store=minimcp.TokenMemory(),
        redirect_uri=REDIRECT_URI,
        on_redirect=browser.open,
        on_callback=browser.wait,
        client_id=CONTEXT.get("client_id"),
        client_secret=CONTEXT.get("client_secret"),
        issuer=issuer_of(url) if "client_secret" in CONTEXT else CONTEXT.get("issuer"),
        client_metadata_url=CLIENT_METADATA_URL,
    )


def answer(request: minimcp.ElicitRequest) -> Dict[str, Any]:
    return (
        {"confirmed": True} if "confirmed" in (request.schema or {}).get("properties", {}) else {}
    )


def main() -> int:
    """Run the scenario; 2 for one that is not known here."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    authorized = scenario.startswith(AUTHORIZATION)
    run = call_test_tool if authorized else SCENARIOS.get(scenario)
    if run is None:
        return 2
    with minimcp.connect(
        sys.argv[-1],
        revision=os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto"),
        timeout=SECONDS,
        connect_timeout=SECONDS,
        elicit=answer,
        sample=lambda request: "a sample",
        roots=[],
        auth=authorization(scenario, sys.argv[-1]) if authorized else None,
        client_info={"name": "minimcp-conformance", "version": "1"},
    ) as client:
        run(client)
    return 0


if __name__ == "__main__":
    sys.exit(main())
