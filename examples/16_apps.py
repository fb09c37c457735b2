"""A tool can show its result as a page: the host draws the page, and the page calls tools.

You will see what a host finds about the page, the data that it is drawn from, and the result of a
click on a bar.

The page is a resource under `ui://`, plain HTML. Its first script is replaced with ours, less than
3 kB, which defines `app`. The host sends the tool's result to the page. A click on a bar calls the
tool `details`, which hosts do not offer to the model. A client that does not know the extension
gets only the table. Hosts load the page into a sandbox, from which it cannot reach the network.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources (the extension is
specified by itself, at https://github.com/modelcontextprotocol/ext-apps)
"""

import minimcp

PAGE = """<!DOCTYPE html>
<title>Sales</title>
<script src="minimcp-app.js"></script>
<style>
  body { font: 15px sans-serif; margin: 12px }
  button { display: block; margin: 4px 0; padding: 6px; border: 0; text-align: left; background: #79a8d8; color: #000 }
  p { min-height: 1.2em }
</style>
<div id="chart"></div>
<p id="details">Click a bar.</p>
<script>
  function draw(table) {
    const most = Math.max(...Object.values(table)), bars = Object.entries(table).map(([month, sold]) => {
      const bar = document.createElement("button");
      bar.textContent = `${month}: ${sold}`;
      bar.style.width = `${100 * sold / most}%`;
      bar.onclick = () => choose(month);
      return bar;
    });
    document.getElementById("chart").replaceChildren(...bars);
  }
  async function choose(month) {
    const result = await app.callTool("details", {month});
    document.getElementById("details").textContent = `${month}: ${result.content[0].text}`;
    app.updateModelContext(`The user looks at ${month}.`);
  }
  app.on("tool-result", result => draw(result.structuredContent));
</script>
"""
SALES = {
    "April": {"tea": 30, "coffee": 12},
    "May": {"tea": 21, "coffee": 35},
    "June": {"tea": 44, "coffee": 40},
}
server = minimcp.Server("sales", extensions=[minimcp.Apps()])


@server.app("ui://sales/chart", border=True)
def chart() -> str:
    """Show a bar for each month."""
    return PAGE


@server.tool(ui="ui://sales/chart")
def sales() -> dict[str, int]:
    """Return the sales of each month."""
    return {month: sum(sold.values()) for month, sold in SALES.items()}


@server.tool(visibility="app")
def details(month: str) -> str:
    """Return the sales of one month."""
    return ", ".join(f"{sold} {drink}" for drink, sold in SALES[month].items())


if __name__ == "__main__":
    # a host that can show pages
    with minimcp.connect(server, extensions=[minimcp.Apps()]) as host:
        tools = {tool.name: tool.meta or {} for tool in host.list_tools()}
        print("tools:", tools)
        page = host.read_resource(tools["sales"]["ui"]["resourceUri"]).contents[0]
        print("page:", page.mime_type, page.meta)
        print("drawn from:", host.call_tool("sales").value)
        print("a click:", host.call_tool("details", {"month": "May"}).text)
    with minimcp.connect(server) as client:
        print("a client without pages:", client.call_tool("sales").text)

# Exercise: add an optional parameter `drink: str` to `details`. If it is given, the tool returns the
# sales of that drink only. Check it with  python3 examples/check.py 16
