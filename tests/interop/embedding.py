"""`python -m tests.interop.embedding`: blocks of pages, run with Flask, Celery, Jupyter,
OpenTelemetry and pandas.

The programs are installed at the versions below, into an environment of their own. The exit code is
1 if that fails or a program deviates from its page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .environments import InstallFailed, PythonEnvironment

ROOT = Path(__file__).resolve().parents[2]

ENVIRONMENT = PythonEnvironment(
    "embedding",
    [
        "flask==3.1.3",
        "celery==5.7.0",
        "ipykernel==7.4.0",
        "jupyter_client==8.10.0",
        "prometheus-client==0.26.0",
        "opentelemetry-sdk==1.45.2",
        "pandas==3.1.1",
        "matplotlib==3.11.2",
    ],
)

SECONDS = 120.0
# The first page has the server that the others call.
PAGES = [
    ROOT / "examples" / name
    for name in ("first_server.rst", "frameworks.rst", "operating.rst", "data.rst", "events.rst")
]
BLOCK = re.compile(
    r"^\.\. (file|needs|cells): (\S+).*\n\n\.\. code-block:: python\n\n((?:(?:    .*)?\n)+)", re.M
)

FLASK = """
import os
from web import app

def ask(city):
    answer = app.test_client().get(f"/forecast/{city}")
    return answer.status_code, answer.get_json()

def check():
    assert ask("Oslo") == (200, [{"degrees": 3, "number": 1}]), ask("Oslo")
    assert ask("Atlantis") == (404, {"error": "There is no weather station in Atlantis."}), ask("Atlantis")

check()
child = os.fork()
if child == 0:
    check()  # this process has a client of its own
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
check()
"""

WEBHOOKS = """
import os
os.environ["HOOKS_URL"] = "https://me.example.com/hooks"
from hooks import app

browser = app.test_client()
assert browser.get("/saved").get_json() == []
# A webhook for an unknown subscription is to be sent again, and anything else is refused.
names = {"webhook-id": "1", "x-mcp-subscription-id": "1"}
assert browser.post("/hooks/x", json={}, headers=names).status_code == 503
assert browser.post("/hooks/x", json={}).status_code == 400
assert browser.get("/hooks/x").status_code == 405
"""

CELERY = """
import os, subprocess, sys
import tasks
from weather import weather

for folder in ("queue", "results"):
    os.makedirs(folder, exist_ok=True)
tasks.app.conf.update(
    broker_url="filesystem://", result_backend="file://" + os.path.abspath("results"),
    broker_transport_options={"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "queue"},
)
if sys.argv[1:] == ["worker"]:
    weather().ping()  # the parent of the workers has a client, too
    tasks.app.worker_main(["worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "warning"])
else:
    worker = subprocess.Popen([sys.executable, __file__, "worker"])
    try:
        sent = [tasks.forecast.delay("Oslo") for _ in range(8)]
        for each in sent:
            assert each.get(timeout=60) == [{"degrees": 3, "number": 1}]
        tasks.app.control.shutdown()
        assert worker.wait(timeout=60) == 0
    finally:
        worker.kill()
        worker.wait()
"""

JUPYTER = """
import os, re
from jupyter_client.manager import start_new_kernel

cells = re.split(r"(?m)^# In .*\\n", open("notebook").read())
manager, kernel = start_new_kernel(kernel_name="python3")

def run(cell):
    shown = []
    def look(message):
        content = message["content"]
        shown.append(content.get("data", {}).get("text/plain") or content.get("evalue"))
    status = kernel.execute_interactive(cell, timeout=60, output_hook=look)["content"]["status"]
    assert status == "ok", shown
    return [each for each in shown if each]

try:
    assert [run(cell) for cell in cells] == [[], [], [], ["42"]]
    run(cells[1].replace("2 * number", "3 * number"))
    assert run(cells[3]) == ["63"]
    # A kernel that is interrupted ends the call that waits, and the client goes on.
    run('@server.tool(replace=True)\\ndef hold(ctx: minimcp.Context) -> str:\\n    "Wait."\\n'
        '    ctx.progress(1)\\n    ctx.sleep(600)\\n    return ""')
    def interrupt(message):
        # Not at the message that repeats the cell, because the kernel has not begun it by then.
        if message["msg_type"] == "stream" and "begun" in message["content"]["text"]:
            manager.interrupt_kernel()
    waiting = 'client.call_tool("hold", on_progress=lambda report: print("begun", flush=True), timeout=60)'
    reply = kernel.execute_interactive(waiting, timeout=60, output_hook=interrupt)["content"]
    assert (reply["status"], reply.get("ename")) == ("error", "KeyboardInterrupt"), reply
    assert run(cells[3]) == ["63"]
    # A server process, whose stderr goes where that of the kernel does; then to an object without a descriptor.
    process = ('with minimcp.connect("server.py") as other:\\n'
               '    print(other.call_tool("forecast", {"city": "Oslo"}).value[0])')
    run(process)
    run("import io, sys; sys.stderr = io.StringIO()")
    run(process)
    run("client.close()")
finally:
    kernel.stop_channels()
    manager.shutdown_kernel(now=True)
"""

PROMETHEUS = """
import prometheus_client, minimcp
from metrics import server

@server.tool
def forecast(city: str) -> str:
    "Forecast."
    return city

with minimcp.connect(server, revision="2025-11-25") as client:
    client.list_tools()
    client.call_tool("forecast", {"city": "Oslo"})
    for made_up in ("a/b", "c/d"):
        try:
            client.request(made_up)
        except minimcp.MethodNotFound:
            pass
text = prometheus_client.generate_latest().decode()
for line in (
    'mcp_requests_total{method="tools/list",name="",outcome="ok"} 1.0',
    'mcp_requests_total{method="tools/call",name="forecast",outcome="ok"} 1.0',
    'mcp_requests_total{method="unknown",name="",outcome="error"} 2.0',
    'mcp_request_seconds_count{method="tools/call",name="forecast"} 1.0',
):
    assert line in text.splitlines(), text
"""

OPENTELEMETRY = """
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)

import minimcp
from traces import server

inner = minimcp.Server("inner")

@inner.tool
def parent(ctx: minimcp.Context) -> str:
    "What the call came with."
    return ctx.meta.get("traceparent", "none")

@server.tool
def outer() -> str:
    "Call another server."
    return client.call_tool("parent").text

with minimcp.connect(inner) as client, minimcp.connect(server) as host:
    with trace.get_tracer("host").start_as_current_span("question") as question:
        carrier = {}
        propagate.inject(carrier)
        host.request("tools/call", {"name": "outer", "arguments": {}, "_meta": carrier})
        seen = host.request("tools/call", {"name": "outer", "_meta": carrier})["content"][0]["text"]
handled = [span for span in spans.get_finished_spans() if span.name == "tools/call"]
assert len(handled) == 2
for span in handled:
    assert span.parent.span_id == question.get_span_context().span_id
last = handled[-1].get_span_context()
assert seen.startswith(f"00-{last.trace_id:032x}-{last.span_id:016x}-"), seen
"""

PANDAS = """
import pathlib
import minimcp
from chart import server

pathlib.Path("sales.csv").write_text("product,sales\\ntea,3\\ncoffee,5\\n")
with minimcp.connect(server) as client:
    assert client.call_tool("best", {"count": 1}).value == [{"product": "coffee", "sales": 5}]
    (image,) = client.call_tool("chart").content
    assert image.mime_type == "image/png" and image.data.startswith(b"\\x89PNG"), image
"""

PROGRAMS = {
    "chart.py": PANDAS,
    "hooks.py": WEBHOOKS,
    "web.py": FLASK,
    "tasks.py": CELERY,
    "metrics.py": PROMETHEUS,
    "traces.py": OPENTELEMETRY,
    "notebook": JUPYTER,
}  # the name of a block, and the program that runs it


def write_blocks(folder: Path) -> None:
    for _, name, text in BLOCK.findall("".join(page.read_text("utf-8") for page in PAGES)):
        (folder / name).write_text(re.sub("^    ", "", text, flags=re.M), "utf-8")


def run(block: str, script: str) -> bool:
    """Run one program in a folder of its own, print the outcome, and return whether it passed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_blocks(folder)
        (folder / "program.py").write_text(script, "utf-8")
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "IPYTHONDIR": name,
        }
        done = subprocess.run(
            ENVIRONMENT.command(str(folder / "program.py")),
            cwd=folder,
            env=variables,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
    if done.returncode:
        print(done.stdout.decode("utf-8", "replace")[-6000:])
    print(f"{block}: {'FAILED' if done.returncode else 'as the page says'}", flush=True)
    return done.returncode == 0


def main() -> int:
    """Install, run everything, and return the exit code."""
    try:
        ENVIRONMENT.ready()
    except InstallFailed as error:
        print(error)
        return 1
    failed = [block for block, script in PROGRAMS.items() if not run(block, script)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
