"""mqtt.js in a page of a real browser, over a WebSocket listener."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Stand
from tests.system.drivers import NODE, install_npm
from tests.wire import Wire

PAGE = '<!doctype html><title>loading</title><script src="mqtt.min.js"></script>'
TALK = """
([url, version]) => {
  const talk = async () => {
    const client = await mqtt.connectAsync(url, { protocolVersion: version, reconnectPeriod: 0 });
    const got = [];
    const all = new Promise((done) => client.on("message", (topic, payload, packet) => {
      got.push([topic, payload.toString(), packet.qos]);
      if (got.length === 4) done();
    }));
    await client.subscribeAsync(["page/" + version + "/#"], { qos: 2 });
    for (const qos of [0, 1, 2]) await client.publishAsync("page/" + version + "/own", "qos " + qos, { qos });
    document.title = "ready";
    await all;
    await client.endAsync();
    return got;
  };
  window.talk = talk();
  window.talk.catch((error) => { document.title = "failed: " + error.message; });
}
"""
OPEN = """
(url) => {
  const socket = new WebSocket(url, "mqtt");
  socket.onopen = () => { document.title = "opened"; };
  socket.onerror = () => { document.title = "refused"; };
}
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server of static files, as a plant's own page would come from."""
    why = install_npm("mqtt")
    if why:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("site")
    (folder / "page.html").write_text(PAGE)
    shutil.copy(NODE / "node_modules" / "mqtt" / "dist" / "mqtt.min.js", folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("version", [4, 5])
def test_a_page_publishes_and_subscribes(browser: Any, stand: Stand, site: int, version: int) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{site}/page.html")
    page.evaluate(TALK, [f"ws://127.0.0.1:{stand.ws}/mqtt", version])
    page.wait_for_function("() => document.title !== 'loading'")
    assert page.title() == "ready"
    with Wire.connect(stand.broker.port, "machine") as machine:
        machine.publish_done(f"page/{version}/machine", b"from a machine", qos=1)
    got = page.evaluate("window.talk")
    context.close()
    own = [[f"page/{version}/own", f"qos {qos}", qos] for qos in (0, 1, 2)]
    machine_said = [f"page/{version}/machine", "from a machine", 1]
    assert [one for one in got if one in own] == own
    assert machine_said in got
    assert len(got) == 4


def test_a_page_from_elsewhere_does_not_get_in(browser: Any, stand: Stand, site: int) -> None:
    """The same page under another name: a browser here must not be a way in for any site that its user looks at."""
    context = browser.new_context()
    page = context.new_page()
    for name, ends in (("127.0.0.1", "opened"), ("localhost", "refused")):
        page.goto(f"http://{name}:{site}/page.html")
        page.evaluate(OPEN, f"ws://127.0.0.1:{stand.ws}/mqtt")
        page.wait_for_function("() => document.title !== 'loading'")
        assert page.title() == ends
    context.close()
