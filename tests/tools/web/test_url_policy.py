"""Addresses: one spelling of each, and which of them are of the public internet."""

from ipaddress import ip_address

import pytest

from ostler.tools.web.url_policy import AllowedAddresses, BadUrl, parse_networks, parse_url, resolve_redirect

SPELLINGS = {
    "http://example.org": "https://example.org/",
    "HTTPS://Example.ORG./a b".replace(" ", "%20"): "https://example.org/a%20b",
    "https://example.org?q=a#part": "https://example.org/?q=a",
    "http://127.0.0.1/x": "http://127.0.0.1/x",
    "http://localhost:80/": "http://localhost:80/",
    "http://[0:0:0:0:0:0:0:1]:8/": "http://[::1]:8/",
    "http://[fe80::1%25eth0]/": "http://[fe80::1]/",
    "http://bücher.example/ü?ü": "https://xn--bcher-kva.example/%C3%BC?%C3%BC",
    "  https://example.org/%2e%2e/x  ": "https://example.org/%2e%2e/x",
    "https://example.org/a?b=[1]&c={2}": "https://example.org/a?b=[1]&c={2}",
}


def test_an_address_has_one_spelling() -> None:
    assert {text: str(parse_url(text)) for text in SPELLINGS} == SPELLINGS


def test_what_programs_read_in_different_ways_is_no_address() -> None:
    for text in [
        "example.org", "ftp://example.org", "file:///etc/passwd", "https://", "https:///x", "https://a..b",
        "https://user@example.org/", "https://user:pass@example.org/", "https://example.org\\@127.0.0.1/",
        "https://exa mple.org", "https://example.org/\r\nHost: x", "https://example.org/a\tb", "https://-a.org/",
        "http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/", "http://127.0.0.1.1/",
        "https://[::1", "https://[nothing]/", "https://[::1]x/", "https://example.org:0/", "https://example.org:99999/",
        "https://example.org:8o/", f"https://example.org/{'x' * 2000}",
    ]:  # fmt: skip
        with pytest.raises(BadUrl):
            parse_url(text)


def test_a_redirect_is_read_like_any_address() -> None:
    url = parse_url("https://example.org/a/b?q")
    assert str(resolve_redirect(url, "../c")) == "https://example.org/c"
    assert str(resolve_redirect(url, "//other.example/x")) == "https://other.example/x"
    assert str(resolve_redirect(url, "http://example.org/x")) == "https://example.org/x"
    for location in ("file:///etc/passwd", "https://a@b/", "http://127.1/", "javascript:x", "https://[::1"):
        with pytest.raises(BadUrl):
            resolve_redirect(url, location)


NOT_PUBLIC = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "::7f00:1",
    "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:1::1", "2001:db8::1", "fe80::1", "fc00::1", "fd00:ec2::254",
    "ff02::1", "100::1",
]  # fmt: skip


def test_what_leads_into_a_private_network_is_not_dialled() -> None:
    url = parse_url("https://example.org/")
    dialled = [text for text in NOT_PUBLIC if AllowedAddresses().may_dial(ip_address(text), url)]
    assert dialled == []
    for text in ("8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"):
        assert AllowedAddresses().may_dial(ip_address(text), url), text


def test_the_configuration_opens_networks_under_every_name() -> None:
    policy = AllowedAddresses(private=parse_networks(["10.0.0.0/8", "fd00::1"]))
    for text, opened in {
        "10.9.9.9": True,
        "::ffff:10.9.9.9": True,
        "fd00::1": True,
        "fd00::2": False,
        "127.0.0.1": False,
    }.items():
        assert policy.may_dial(ip_address(text), parse_url("https://example.org/")) is opened, text


def test_a_rule_opens_the_address_that_it_names_and_no_name_that_leads_there() -> None:
    policy = AllowedAddresses(named=frozenset({ip_address("10.0.0.1")}))
    address = ip_address("10.0.0.1")
    assert policy.may_dial(address, parse_url("http://10.0.0.1/"))
    assert not policy.may_dial(address, parse_url("https://evil.example/"))
    assert not policy.may_dial(ip_address("10.0.0.2"), parse_url("http://10.0.0.2/"))
