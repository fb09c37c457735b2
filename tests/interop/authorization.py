"""`python -m tests.interop.authorization`: clients of the official SDKs sign in to a server that asks for tokens.

The SDKs are those of the roster; the authorization server is `tests.authorization_server`. Prints a line for each
client; exit code 1 when one cannot be installed, or a check failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping

from ..authorization_server import AuthorizationServer, protected
from .environments import InstallFailed
from .roster import PEERS, Peer

SECONDS = 60.0
SCRIPTS = {
    "python-sdk-2": "python_auth_client.py", "typescript-sdk-1": "typescript_auth_client.mjs",
    "typescript-sdk-2": "typescript_auth_client.mjs",
}


def sign_in(peer: Peer, script: str) -> Mapping[str, Any]:
    """Have a client sign in; its checks, each true or what went wrong."""
    peer.environment.ready()
    with AuthorizationServer() as issuer, protected(issuer, scopes=("read",)) as running:
        issuer.more["response_types_supported"] = ["code"]
        command = [*peer.environment.command(str(Path(__file__).parent / "peers" / script)), running.url]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        return {"ends": f"exit code {done.returncode}: {done.stderr[-2000:]}"}
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    failed = 0
    for peer in PEERS:
        if peer.name not in SCRIPTS:
            continue
        try:
            checks = sign_in(peer, SCRIPTS[peer.name])
        except (InstallFailed, subprocess.TimeoutExpired, ValueError) as error:
            checks = {"runs": str(error)}
        wrong = {name: what for name, what in checks.items() if what is not True}
        failed += bool(wrong)
        print(f"{peer.name} {peer.version}: {len(checks) - len(wrong)} of {len(checks)}")
        for name, what in wrong.items():
            print(f"  {name}: {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
