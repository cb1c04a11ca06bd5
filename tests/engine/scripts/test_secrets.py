"""Passwords, keys and tokens are told apart from other variables."""

from __future__ import annotations

import pytest

from engine.scripts.secrets import looks_secret, missing_secrets, shown_words, split_secrets


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WANDB_API_KEY", "0123"),
        ("HF_TOKEN", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("DB_PASSWORD", ""),
        ("my_password", "x"),
        ("ANYTHING", "hf_" + "a" * 20),
        ("ANYTHING", "postgres://someone:word@host/base"),
        ("ANYTHING", "-----BEGIN RSA PRIVATE KEY-----\nMII"),
    ],
)
def test_a_secret(name: str, value: str) -> None:
    assert looks_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "512"),
        ("MONKEY", "see"),
        ("DATA", "/data/keys"),
        ("MIRROR", "https://host.example/simple"),
        ("OMP_NUM_THREADS", "4"),
    ],
)
def test_no_secret(name: str, value: str) -> None:
    assert not looks_secret(name, value)


def test_variables_are_divided() -> None:
    assert split_secrets({"A": "1", "B_TOKEN": "2"}) == ({"A": "1"}, {"B_TOKEN": "2"})


def test_the_missing_ones_are_named() -> None:
    assert missing_secrets(("A", "B"), {"B": ""}) == ["A"]


def test_a_command_is_shown_without_its_secrets() -> None:
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    words = ["a.py", "--token", "x", "--api-key=y", "logger.password=z", token, "--lr", "1", "b=2"]
    assert shown_words(words) == [
        *("a.py", "--token", "***", "--api-key=***", "logger.password=***", "***"),
        *("--lr", "1", "b=2"),
    ]
    assert shown_words(["a.py", "--token", "--lr", "1"]) == ["a.py", "--token", "--lr", "1"]
