"""Settings: read once; an invalid one is named in one line."""

from pathlib import Path

import pytest

from holdfast.settings import BadSetting, Environment, Settings, named_tokens, unknown_names


def test_an_unset_setting_has_its_default():
    assert Settings.load(Environment({})) == Settings()


def test_every_setting_is_read():
    read = Settings.load(
        Environment(
            {
                "HOLDFAST_DATA_DIR": "/srv/x",
                "HOLDFAST_DATABASE_URL": "somewhere",
                "HOLDFAST_SECRET_KEY": "s" * 16,
                "HOLDFAST_ADMIN_TOKEN": "t" * 16,
                "PORT": "0",
                "WORKER_CONCURRENCY": "3",
                "LEASE_MS": "60000",
                "LEASE_EXTEND_MS": "5000",
            }
        )
    )
    assert read == Settings(Path("/srv/x"), "somewhere", "s" * 16, "t" * 16, 0, 3, 60.0, 5.0)


def test_metrics_are_served_on_the_loopback_address_unless_another_is_set():
    read = Settings.load(Environment({"HOLDFAST_METRICS_PORT": "9100"}))
    assert (read.metrics_port, read.metrics_host) == (9100, "127.0.0.1")
    everywhere = {"HOLDFAST_METRICS_PORT": "9100", "HOLDFAST_METRICS_HOST": "0.0.0.0"}
    assert Settings.load(Environment(everywhere)).metrics_host == "0.0.0.0"


def test_a_short_lease_has_a_shorter_extension_interval():
    assert Settings.load(Environment({"LEASE_MS": "2000"})).extend_every == 0.5


@pytest.mark.parametrize(
    "name, value",
    [
        ("PORT", "70000"),
        ("PORT", "-1"),
        ("PORT", "http"),
        ("WORKER_CONCURRENCY", "0"),
        ("WORKER_CONCURRENCY", "2.5"),
        ("LEASE_MS", "10"),
        ("LEASE_EXTEND_MS", "200000"),
        ("HOLDFAST_SECRET_KEY", "short"),
        ("HOLDFAST_ADMIN_TOKEN", "short"),
        ("HOLDFAST_SECURE_COOKIES", "yes"),
        ("HOLDFAST_TRUSTED_PROXIES", "10.0.0.0/8, nginx"),
        ("HOLDFAST_METRICS_PORT", "0"),
        ("HOLDFAST_METRICS_PORT", "all"),
    ],
)
def test_a_bad_value_is_named_in_one_line(name, value):
    with pytest.raises(BadSetting) as refused:
        Settings.load(Environment({name: value}))

    line = str(refused.value)
    assert line.startswith(name)
    assert "\n" not in line


@pytest.mark.parametrize("text, secure", [("auto", None), ("on", True), ("off", False)])
def test_secure_cookies_are_chosen_or_left_to_the_request(text, secure):
    assert Settings.load(Environment({"HOLDFAST_SECURE_COOKIES": text})).secure_cookies is secure


@pytest.mark.parametrize(
    "text, proxies",
    [("off", ()), ("10.0.0.7", ("10.0.0.7",)), ("::1, 10.0.0.0/8", ("::1", "10.0.0.0/8"))],
)
def test_trusted_proxies_are_addresses_and_networks(text, proxies):
    read = Settings.load(Environment({"HOLDFAST_TRUSTED_PROXIES": text}))

    assert read.trusted_proxies == proxies


def test_a_secret_is_not_repeated():
    with pytest.raises(BadSetting) as refused:
        Settings.load(Environment({"HOLDFAST_SECRET_KEY": "hunter2"}))

    assert "hunter2" not in str(refused.value)


def test_spaces_around_a_value_and_empty_values_do_not_count():
    read = Environment({"PORT": " 8123 ", "LEASE_MS": "  "})

    assert (Settings.load(read).port, Settings.load(read).lease_seconds) == (8123, 300.0)


@pytest.mark.parametrize("text", ["ftp://x", "localhost:8100", "http://", "http://x:99999", "x"])
def test_an_invalid_database_url_is_refused_without_repeating_it(text):
    with pytest.raises(BadSetting) as refused:
        Environment({"GATEWAY_URL": text}).address("GATEWAY_URL")

    assert str(refused.value) == "GATEWAY_URL must be an address like http://127.0.0.1:8100"


@pytest.mark.parametrize("text", ["http://h?x=1", "http://h#x"])
def test_an_address_ends_with_its_path(text):
    with pytest.raises(BadSetting):
        Environment({"GATEWAY_URL": text}).address("GATEWAY_URL")


def test_an_address_has_no_slash_at_its_end():
    assert Environment({"A": "http://h:1/p/"}).address("A") == "http://h:1/p"
    assert Environment({}).address("A") is None


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "2", "much"])
def test_a_number_stays_within_its_bounds(text):
    with pytest.raises(BadSetting, match="RATE must be a number from 0 to 1"):
        Environment({"RATE": text}).number("RATE", 0.5, at_least=0, at_most=1)


def test_numbers_and_choices_are_read():
    read = Environment({"RATE": "0.25", "MODE": "hold", "BIG": "12.5"})

    assert read.number("RATE", 0.5, at_least=0, at_most=1) == 0.25
    assert read.number("NONE", 0.5, at_least=0) == 0.5
    assert read.number("BIG", 1, at_least=1) == 12.5
    assert read.choice("MODE", "x", ("hold", "x")) == "hold"
    assert read.choice("NONE", "x", ("hold", "x")) == "x"
    with pytest.raises(BadSetting, match="MODE must be one of a, b, got 'hold'"):
        read.choice("MODE", "a", ("a", "b"))


def test_an_unknown_setting_is_a_warning_with_a_suggestion():
    lines = unknown_names({"HOLDFAST_DATABSE_URL": "x", "HOLDFAST_Q": "", "PATH": "/bin"})

    assert lines == [
        "HOLDFAST_DATABSE_URL is not a setting and is ignored; did you mean HOLDFAST_DATABASE_URL?",
        "HOLDFAST_Q is not a setting and is ignored",
    ]


def test_the_format_of_the_log_and_the_tracebacks_are_chosen_by_name():
    assert (Settings().log_format, Settings().tracebacks) == ("text", "on")
    loaded = Settings.load(
        Environment({"HOLDFAST_LOG_FORMAT": "json", "HOLDFAST_TRACEBACKS": "shop.privacy:redact"})
    )
    assert (loaded.log_format, loaded.tracebacks) == ("json", "shop.privacy:redact")


def test_local_access_is_on_unless_it_is_switched_off():
    assert Settings().local_access
    assert Settings.load(Environment({"HOLDFAST_LOCAL_ACCESS": "on"})).local_access
    assert not Settings.load(Environment({"HOLDFAST_LOCAL_ACCESS": "off"})).local_access
    assert unknown_names({"HOLDFAST_LOCAL_ACCESS": "off"}) == []


@pytest.mark.parametrize(
    "name, wrong", [("LOG_FORMAT", "xml"), ("TRACEBACKS", "maybe"), ("LOCAL_ACCESS", "0")]
)
def test_a_bad_choice_is_named(name, wrong):
    with pytest.raises(BadSetting, match=f"HOLDFAST_{name} must be .*got '{wrong}'"):
        Settings.load(Environment({f"HOLDFAST_{name}": wrong}))


def test_tokens_of_operators_may_have_names():
    text = "ann:" + "a" * 16 + ", ben@example.org:" + "b" * 16
    read = Settings.load(Environment({"HOLDFAST_READER_TOKEN": text}))

    assert read.reader_token == text
    assert named_tokens(text, "reader") == {"ann": "a" * 16, "ben@example.org": "b" * 16}
    assert named_tokens("one", "reader") == {"reader": "one"}
    assert named_tokens("", "reader") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("short", "at least 16"),
        ("ann:short", "at least 16"),
        ("ann:" + "a" * 16 + ",", "part 2"),
        (":" + "a" * 16, "part 1"),
        ("a b:" + "a" * 16, "part 1"),
        ("ann:" + "a" * 16 + ",ann:" + "b" * 16, "twice"),
    ],
)
def test_a_bad_token_is_refused_without_repeating_it(text, words):
    with pytest.raises(BadSetting, match=words) as refused:
        Settings.load(Environment({"HOLDFAST_ADMIN_TOKEN": text}))
    assert "HOLDFAST_ADMIN_TOKEN" in str(refused.value)
    assert "aaaa" not in str(refused.value)
