"""Secrets of many shapes leave variables, commands and texts, and what is no secret stays."""

from __future__ import annotations

import itertools
import shlex

import pytest

from engine.scripts.secrets import (
    fingerprint,
    looks_secret,
    may_store,
    missing_secrets,
    redacted,
    secret_values,
    shown_words,
    split_secrets,
    split_words,
    with_secrets,
)

HUSH = "Zq9-hunter2X"

_NAMES = (
    *("PGPASSWORD", "SSHPASS", "MYSQL_PWD", "accessToken", "API_KEY", "AWS_SECRET_ACCESS_KEY"),
    *("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "DATABASE_URL", "SENTRY_DSN", "NPM_TOKEN"),
    *("TF_TOKEN_app_example", "CUDA_PASSWORD", "HF_TOKEN", "DB_PASS", "mypass", "dbpw", "JWT"),
    *("GITHUB_PAT", "STRIPE_KEY", "CONNECTION_STRING", "OPENAI_KEY", "clientSecret", "REDIS_URL"),
    *("RABBITMQ_DEFAULT_PASS", "KAGGLE_KEY", "AZURE_STORAGE_KEY", "sasToken", "privateKey"),
    *("GOOGLE_API_KEY", "SMTP_PASSWORD", "encryption-key", "db.password", "model.hub.auth_token"),
)
_SHAPES = (
    *(
        "{name}={hush}",
        "--{name}={hush}",
        "+{name}={hush}",
        "export {name}={hush}",
        "-D{name}={hush}",
    ),
    *(
        "--set={name}={hush}",
        '{{"{name}": "{hush}"}}',
        "{{'{name}': '{hush}'}}",
        "?a=1&{name}={hush}",
    ),
    *("sh -c 'x --{name} {hush}'", "f({name}='{hush}')"),
)
_OTHERS = (
    *("redis://:{}@host:6379/0", "postgresql://u:{}@h/db", "mongodb+srv://u:{}@c.net/?w=1"),
    *("amqp://g:{}@h//", "https://ada:{}@h/x.git", "mysql+pymysql://u:{}@h:3306/d"),
    *("Server=x;User Id=sa;Password={};", "AccountName=a;AccountKey={};EndpointSuffix=c"),
    *("host=h user=u password={} dbname=d", "Authorization: Bearer {}", "X-Api-Key: {}"),
    *("https://h/x?sig={}&b=1", "https://h/?access_token={}", "curl -u me:{} http://x"),
    *("Password: {}", "Cookie: {}", "SharedAccessKey={}", "wandb.login(key='{}')"),
)
SECRETS = [
    *(shape.format(name=name, hush=HUSH) for name, shape in itertools.product(_NAMES, _SHAPES)),
    *(shape.format(HUSH) for shape in _OTHERS),
]
MAPPINGS = [
    *("{{token: {}}}", "hf={{token:{}}}", "wandb={{key: {}, project: x}}", "token:{}"),
    *('env={{"A":1,HF_TOKEN: {}}}', "+hub={{name: x, token: {}}}", "{{user: ada, pass: {}}}"),
    *("[{{name: a, key: {}}}]", "hydra.job.env_set={{HF_TOKEN:{}}}", "--env=HF_TOKEN:{}"),
    *("login={{user:a,pw:{}}}", "{{aws: {{auth: {}}}}}", "{{ token: '{}' }}", "--kv token:{}"),
    *("model.hub={{auth_token: {}, repo: a/b}}", "env_set={{WANDB_API_KEY: {},A: 1}}"),
    *("kaggle={{username: a, key: {}}}", "--conf={{key:{}}}", "{{sig: {}, a: [1, 2]}}"),
]
"""As YAML and Hydra have them, without quotes."""

LOGINS = [
    *("wandb login {}", "wandb login --relogin {}", "wandb login --host https://w.example {}"),
    *("/usr/bin/wandb login {}", "python -m wandb login {}", "vault login {}"),
    *("huggingface-cli login --token {}", "hf auth login --token {} --add-to-git-credential"),
    *("docker login -u ada -p {}", "swanlab login -k {}", "sshpass -p {} ssh h", "HF_TOKEN={} x"),
    *("mysql -uroot -p{} db", "/usr/bin/mysqldump -p{} db", "sshpass -p{} ssh h", "mongosh -p {}"),
    *("redis-cli -h x -a {} get k", "redis-cli -a{}", "mariadb-dump -h x -p{}"),
    *(
        "setenv HF_TOKEN {}",
        "aws configure set aws_secret_access_key {}",
        "comet login --api-key {}",
    ),
]
TOKENS = [
    *("hf_" + "a" * 34, "sk-proj-" + "b" * 40, "ghp_" + "c" * 36, "github_pat_" + "d" * 22),
    *("glpat-" + "e" * 20, "xoxb-" + "1" * 12 + "-abc", "AKIA" + "A" * 16, "AIza" + "f" * 35),
    *("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "npm_" + "g" * 36, "nvapi-" + "h" * 60),
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
]
HARMLESS_WORDS = [
    *("tokenizer=bert", "model={name: bert, hidden: 64}", "{lr: 0.1, max_tokens: 512}"),
    *("{pad_token: <pad>, tokenizer: gpt2}", "{sort_key: name}", "{token: 0.5, key: null}"),
    *("-v /host/key:/container/key", "/opt/token:/usr/bin", "wandb login", "wandb login --relogin"),
    *("mysql -uroot -p db", "train.py -p 8080 -a 3", "mysql --port 3306", "redis-cli get k"),
    *("hf auth login", "login -p", "wandb sync run-1", "BATCH_SIZE 3", "use_auth: false"),
]
HARMLESS = [
    *("train.py", "--lr=0.1", "lr=0.1", "--max-tokens=512", "--pad-token=<pad>", "--token-file=/x"),
    *(
        "--sort-key=name",
        "--key-dim=64",
        "--two-pass",
        "http://localhost:8080/x@y",
        "ssh://git@h/x",
    ),
    *("a@b.c", "--auth=false", "s3://b/k", "--tokenizer=gpt2", "model=resnet", "--monkey=x"),
    *("PYTHONPATH=/a:/b", "--passes=3", "--keyframes=9", "optimizer.name=adam", "--user=ada"),
    *("KeyError: 'loss'", "x = tokenizer(text)", "token = self.token", "tcp://10.0.0.1:2345"),
    *("def f(password: str, token=None): ...", "see https://docs.example.org/tokens"),
]


@pytest.mark.parametrize("kind", ["text", "word", "words"])
def test_secrets_of_many_shapes_are_found(kind: str) -> None:
    assert len(SECRETS) > 300
    for text in SECRETS + TOKENS:
        is_split = kind == "words" and text[0] not in "{?" and ": " not in text
        words = shlex.split(text) if is_split else [text]
        left = redacted(text) if kind == "text" else " ".join(shown_words(words))
        assert HUSH not in left, text
        assert left != text
        stored, values = split_words(words)
        assert HUSH not in " ".join(stored), text
        assert [with_secrets(word, values) for word in stored] == words
        assert split_words(stored) == (stored, {}), "what was replaced is no secret any more"


@pytest.mark.parametrize("shape", MAPPINGS + LOGINS)
def test_mappings_and_logins_among_the_arguments_hold_no_secret(shape: str) -> None:
    text = shape.format(HUSH)
    texts = [shlex.split(text.replace("'", "")), ["x", *text.split(" ")], ["sh", "-c", text]]
    for words in texts:
        stored, values = split_words(words)
        assert HUSH not in " ".join([*stored, *shown_words(words)])
        assert [with_secrets(word, values) for word in stored] == words
        assert split_words(stored) == (stored, {})


@pytest.mark.parametrize("text", HARMLESS_WORDS)
def test_mappings_without_a_secret_stay_readable(text: str) -> None:
    for words in ([text], text.split(" ")):
        assert shown_words(words) == words


def test_what_is_no_secret_stays() -> None:
    for text in ("Run wandb login first, then go on", "the token: a word", "the key: another"):
        assert redacted(text) == text, "a mapping without quotes counts in a command alone"
    for text in HARMLESS:
        assert redacted(text) == text
        assert shown_words([text]) == [text]
        assert split_words([text]) == ((text,), {})


@pytest.mark.parametrize("name", [*_NAMES, "PLACE", "MY_URL", "KEY"])
def test_values_of_variables_are_stored_only_by_a_list_or_by_the_user(name: str) -> None:
    assert not may_store(name, HUSH)
    assert may_store(name, HUSH, (name,))
    assert split_secrets({"OMP_NUM_THREADS": "4", name: HUSH}) == (
        {"OMP_NUM_THREADS": "4"},
        {name: HUSH},
    )


def test_the_list_holds_what_libraries_read() -> None:
    names = ("CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "PYTHONHASHSEED", "TOKENIZERS_PARALLELISM")
    assert all(may_store(name, "1") for name in (*names, "TF_CPP_MIN_LOG_LEVEL", "WANDB_MODE"))
    assert not may_store("CUDA_HOME", f"redis://:{HUSH}@host/0")


@pytest.mark.parametrize(
    ("name", "value"),
    [("TOKENIZERS_PARALLELISM", "false"), ("MAX_TOKENS", "512"), ("DATA", "/data/keys")],
)
def test_no_secret(name: str, value: str) -> None:
    assert not looks_secret(name, value)


def test_two_secrets_of_one_name_have_two_places() -> None:
    words = ("a", "--token", "x1", "--token=y1", "--token", "x1")
    stored, values = split_words(words, taken=("ARGUMENT_TOKEN",))
    assert sorted(values.values()) == ["x1", "y1"]
    assert "ARGUMENT_TOKEN" not in values
    assert tuple(with_secrets(word, values) for word in stored) == words


def test_given_variables_are_shown_by_name() -> None:
    words = ["run", "--var", "PLACE=a=b", "--stored-var=X=1", "--var", "Y", "--", "a.py"]
    shown = ["run", "--var", "PLACE=***", "--stored-var=X=***", "--var", "Y", "--", "a.py"]
    assert shown_words(words) == shown


def test_known_values_leave_a_text() -> None:
    assert redacted("+password is s3cr3t-value, yes", ["s3cr3t-value", "yes"]) == (
        "+password is ***, yes"
    )
    environment = {"WANDB_API_KEY": "0123456789", "X": HUSH, "MODE": "production", "D": "/data"}
    assert secret_values(environment) == ["0123456789"]
    assert secret_values(environment, ("X", "MODE", "D")) == ["0123456789", HUSH]


def test_a_fingerprint_tells_values_apart_and_depends_on_the_key() -> None:
    marks = {fingerprint(key, "A", value) for key in (b"1", b"2") for value in ("x", "y")}
    assert len(marks) == 4


def test_the_missing_ones_are_named() -> None:
    assert missing_secrets(("A", "B"), {"B": ""}) == ["A"]


@pytest.mark.parametrize(
    "part",
    ["a.", "a://", 'x="', "-", "u:p@", "Bearer ", "eyJ", "--a ", "login ", "wandb login -a ", "a:"],
)
def test_a_long_text_takes_no_square_of_its_length(part: str) -> None:
    redacted(part * 20_000)  # it took minutes
    shown_words([part * 20_000, "x"])
