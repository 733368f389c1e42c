"""What a hostile web page in the person's own browser would try.

A page cannot know the token. Where only its address can keep it out, it is given the token all the same.
"""

from typing import Final

from tests.security.probe import OWN_HOST, TOKEN, Probe, build_request, make_raw_probe

CALL: Final = '{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}'
EVIL: Final = "Origin: https://evil.example"
UPGRADE: Final = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
PREFLIGHT: Final = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")

_FOREIGN_HOSTS: Final = (
    "evil.example:<PORT>",
    "127.0.0.1.evil.example:<PORT>",
    "localhost.evil.example:<PORT>",
    "evil.example.localhost:<PORT>",
    "localhost.:<PORT>",
    "127.0.0.2:<PORT>",
    "127.1:<PORT>",
    "0.0.0.0:<PORT>",
    "[::]:<PORT>",
    "[::ffff:127.0.0.1]:<PORT>",
    "[0:0:0:0:0:0:0:1]:<PORT>",
    "2130706433:<PORT>",
    "0177.0.0.1:<PORT>",
    "0x7f000001:<PORT>",
    "evil.example@localhost:<PORT>",
    "localhost:<PORT>@evil.example",
    "localhost:<PORT>,evil.example",
    "localhost:<PORT>/",
    "localhost:0<PORT>",
    "localhost:80",
    "localhost",
    "",
)
_FOREIGN_ORIGINS: Final = (
    "null",
    "file://",
    "https://evil.example",
    "chrome-extension://aaaabbbbccccddddeeeeffffgggghhhh",
    "moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc",
    "http://localhost:1",
    "http://localhost",
    "https://localhost:<PORT>",
    "http://127.0.0.1.evil:<PORT>",
    "http://localhost:<PORT>.evil.example",
    "http://evil.example@localhost:<PORT>",
    "http://localhost:<PORT>/",
    "http://localhost:<PORT> https://evil.example",
    "HTTP://evil.example",
    "",
)


def _make_probe(
    outcome: str, name: str, line: str, *headers: str, host: str | None = OWN_HOST, body: str = ""
) -> Probe:
    return make_raw_probe("page", name, build_request(line, *headers, host=host, body=body), outcome)


def _list_rebinding_probes() -> list[Probe]:
    """The page's own name suddenly means our address."""
    named = [
        _make_probe("403", f"rebinding to us as {host!r}", "GET /metrics", TOKEN, host=host) for host in _FOREIGN_HOSTS
    ]
    evil = "evil.example:<PORT>"
    forwarded = ("X-Forwarded-Host: localhost:<PORT>", "Forwarded: host=localhost:<PORT>", "X-Host: localhost:<PORT>")
    absolute = "http://evil.example:<PORT>/metrics"
    return [
        *named,
        _make_probe("403", "rebinding, for a probe", "GET /healthz", host=evil),
        _make_probe("403", "rebinding, with our name as forwarded", "GET /metrics", TOKEN, *forwarded, host=evil),
        _make_probe("403", "two hosts, ours first", "GET /metrics", "Host: evil.example", TOKEN),
        _make_probe("403", "two hosts, ours last", "GET /metrics", f"Host: {OWN_HOST}", TOKEN, host=evil),
        _make_probe("403", "no host", "GET /metrics", TOKEN, host=None),
        _make_probe(
            "403", "our address in the target, its name as host", f"GET http://{OWN_HOST}/metrics", TOKEN, host=evil
        ),
        _make_probe("401", "its name in the target, ours as host", f"GET {absolute}"),
    ]


def _list_origin_probes() -> list[Probe]:
    two = (f"Origin: http://{OWN_HOST}", EVIL, TOKEN)
    return [
        *(
            _make_probe("403", f"a fetch from {origin!r}", "GET /metrics", f"Origin: {origin}", TOKEN)
            for origin in _FOREIGN_ORIGINS
        ),
        _make_probe("403", "two origins", "GET /metrics", *two),
        _make_probe("403", "a probe from elsewhere", "GET /readyz", EVIL),
        _make_probe(
            "401", "a fetch from our own origin, without the token", "GET /metrics", f"Origin: http://{OWN_HOST}"
        ),
        _make_probe("403", "a preflight", "OPTIONS /rpc", EVIL, *PREFLIGHT),
        _make_probe(
            "403",
            "a preflight for a private network",
            "OPTIONS /rpc",
            EVIL,
            *PREFLIGHT,
            "Access-Control-Request-Private-Network: true",
        ),
        _make_probe("401", "a preflight from our own origin", "OPTIONS /rpc", f"Origin: http://{OWN_HOST}", *PREFLIGHT),
        _make_probe("401", "a preflight without an origin", "OPTIONS /rpc", *PREFLIGHT),
        _make_probe("401", "options of everything", "OPTIONS *"),
    ]


def _list_form_probes() -> list[Probe]:
    """What a page may send without being asked for a preflight first."""
    multipart = f'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n{CALL}\r\n--x--\r\n'
    bodies = {
        "text/plain": CALL,
        "application/x-www-form-urlencoded": f"{CALL}=",
        "multipart/form-data; boundary=x": multipart,
        "application/json": CALL,
        "text/plain; application/json": CALL,
    }
    sites = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors")
    return [
        *(
            _make_probe(status, f"a form of {kind}, {status}", "POST /rpc", f"Content-Type: {kind}", *more, body=body)
            for kind, body in bodies.items()
            for more, status in (((), "401"), (("Origin: null",), "403"))
        ),
        _make_probe(
            "401", "a fetch that asks for no permission", "POST /rpc", *sites, "Content-Type: text/plain", body=CALL
        ),
        _make_probe("401", "a script tag", "GET /openrpc.json", *sites, "Sec-Fetch-Dest: script"),
        _make_probe("401", "a frame", "GET /", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"),
        _make_probe(
            "401", "a call with an idle body", "POST /rpc", "Content-Type: application/json", "Content-Length: 100"
        ),
    ]


def _list_stream_probes() -> list[Probe]:
    """An event source and a WebSocket cannot send headers, so that daemons are tempted to take tokens elsewhere."""
    places = ("token", "access_token", "authorization", "key", "bearer", "code")
    accept = "Accept: text/event-stream"
    return [
        *(
            _make_probe("401", f"an event source with the token as {place}", f"GET /events?{place}=<TOKEN>", accept)
            for place in places
        ),
        _make_probe("401", "an event source that resumes", "GET /events?after=0", accept, "Last-Event-ID: 0"),
        _make_probe("401", "an event source with a fragment", "GET /events#<TOKEN>", accept),
        _make_probe("403", "an event source from elsewhere", "GET /events", accept, EVIL),
        *(_make_probe("401", f"a WebSocket on {path}", f"GET {path}", *UPGRADE) for path in ("/", "/rpc", "/events")),
        _make_probe(
            "401",
            "a WebSocket with the token as protocol",
            "GET /events",
            *UPGRADE,
            "Sec-WebSocket-Protocol: bearer, <TOKEN>",
        ),
        _make_probe("403", "a WebSocket from elsewhere", "GET /events", *UPGRADE, EVIL, TOKEN),
        make_raw_probe(
            "page",
            "a WebSocket with a frame right behind",
            build_request("GET /events", *UPGRADE) + b"\x81\x85\0\0\0\0hello",
            "401",
        ),
    ]


PROBES: Final = [*_list_rebinding_probes(), *_list_origin_probes(), *_list_form_probes(), *_list_stream_probes()]
