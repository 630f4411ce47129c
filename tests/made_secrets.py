"""Secrets that open nothing, of every shape that is replaced. Put together at run time, so that no scanner of
repositories takes this file for a leak."""

from __future__ import annotations

import random
import string
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import NamedTuple

LETTERS, LOWER = string.ascii_letters + string.digits, string.ascii_lowercase + string.digits
HEX, CAPITALS, BASE64 = "0123456789abcdef", string.ascii_uppercase + "234567", LETTERS + "+/"
WORDS = LETTERS + "_-"


class Made(NamedTuple):
    kind: str
    text: str  # as it stands in a log
    secret: str  # what must be gone

    @property
    def label(self) -> str:
        return f"{self.kind}: {self.text.replace(self.secret, '…')[:40]!r}"


def made(seed: int = 1) -> list[Made]:
    chance = random.Random(seed)

    def some(alphabet: str, count: int) -> str:
        """With a letter and a digit, or one in a thousand would not look random at all."""
        head = "".join(chance.choices([c for c in alphabet if c.isalpha()] or alphabet))
        return (
            head + "".join(chance.choices(alphabet, k=count - 2)) + chance.choice([c for c in alphabet if c.isdigit()])
        )

    def bare(kind: str, *parts: str) -> Made:
        secret = "".join(parts)
        return Made(kind, f"I used {secret} for it", secret)

    def within(kind: str, text: str, secret: str) -> Made:
        return Made(kind, text.replace("@@", secret), secret)

    return [
        bare("aws-key", "AK", "IA", some(CAPITALS, 16)),
        bare("aws-key", "AS", "IA", some(CAPITALS, 16)),
        within("secret", "aws_secret_access_key = @@", some(BASE64, 40)),
        within("secret", '{"SecretAccessKey": "@@"}', some(BASE64, 40)),
        within("secret", "AWS_SECRET_ACCESS_KEY=@@", "/" + some(BASE64, 39)),
        within("token", '{"SessionToken": "@@"}', some(BASE64, 900)),
        bare("google-key", "AI", "za", some(WORDS, 35)),
        bare("google-key", "GOC", "SPX-", some(WORDS, 28)),
        bare("google-key", "ya", "29.", some(WORDS, 60)),
        bare("azure-key", "x7", "18Q~", some(LETTERS, 34)),
        within("api-key", "AccountName=shop;AccountKey=@@;Suffix=x", some(BASE64, 86) + "=="),
        within("azure-key", "https://x.blob.core.windows.net/c?sv=2022&sig=@@", some(LETTERS, 43) + "%3D"),
        bare("anthropic-key", "sk-", "ant-api03-", some(WORDS, 93), "AA"),
        bare("anthropic-key", "sk-", "ant-oat01-", some(WORDS, 93), "AA"),
        bare("openai-key", "sk-", "proj-", some(WORDS, 74), "T3Blbk", "FJ", some(WORDS, 74)),
        bare("openai-key", "sk-", some(LETTERS, 20), "T3Blbk", "FJ", some(LETTERS, 20)),
        bare("openai-key", "sk-", some(HEX, 32)),
        bare("api-key", "sk-", "or-v1-", some(HEX, 64)),
        bare("api-key", "gs", "k_", some(LETTERS, 52)),
        bare("api-key", "xa", "i-", some(LETTERS, 80)),
        bare("api-key", "pp", "lx-", some(LETTERS, 48)),
        *(bare("github-token", "gh", f"{letter}_", some(LETTERS, 36)) for letter in "pousr"),
        bare("github-token", "github", "_pat_", some(LETTERS, 22), "_", some(LETTERS, 59)),
        bare("gitlab-token", "gl", "pat-", some(WORDS, 20)),
        bare("slack-token", "xo", "xb-", "123456789012-1234567890123-", some(LETTERS, 24)),
        bare("slack-token", "xo", "xp-", "123456789012-123456789012-123456789012-", some(HEX, 32)),
        bare("slack-token", "xa", "pp-1-A0123-456-", some(HEX, 64)),
        within("slack-webhook", "https://hooks.slack.com/services/@@", "T01234567/B01234567/" + some(LETTERS, 24)),
        bare("stripe-key", "sk_", "live_", some(LETTERS, 24)),
        bare("stripe-key", "rk_", "test_", some(LETTERS, 24)),
        bare("npm-token", "np", "m_", some(LETTERS, 36)),
        bare("pypi-token", "py", "pi-AgEIcHlwaS5vcmc", some(WORDS, 140)),
        bare("huggingface-token", "h", "f_", some(string.ascii_letters + "1", 34)),
        bare("sendgrid-key", "S", "G.", some(WORDS, 22), ".", some(LETTERS, 43)),
        bare("twilio-key", "S", "K", some(HEX, 32)),
        within("token", "TWILIO_AUTH_TOKEN=@@", some(HEX, 32)),
        bare("telegram-token", "123456789", ":A", "A", some(LETTERS, 33)),
        bare("discord-token", "MT", some(LETTERS, 24), ".", some(LETTERS, 6), ".", some(LETTERS, 38)),
        within("discord-webhook", "https://discord.com/api/webhooks/@@", "123456789012345678/" + some(LETTERS, 68)),
        bare(
            "jwt",
            *(f"{_base64(part)}." for part in ('{"alg":"HS256"}', f'{{"sub":"{some(LOWER, 20)}"}}')),
            some(LETTERS, 43),
        ),
        bare("cloud-token", "dop", "_v1_", some(HEX, 64)),
        bare("cloud-token", "shp", "at_", some(HEX, 32)),
        bare("cloud-token", "hv", "s.", some(LETTERS, 95)),
        bare("cloud-token", "dckr", "_pat_", some(LETTERS, 27)),
        *(
            within("private-key", text, end.join(some(BASE64, 64) for _ in range(12)) + end + some(LETTERS, 9) + "=")
            for end, text in _private_keys()
        ),
        *(within("private-key", text, _encoded(_lines(some, 9), width)) for width, text in _ENCODED),
        within("url-password", "postgres://shop:@@@db.local:5432/shop", "hunter2"),
        within("url-password", "git clone https://oauth2:@@@git.local/a/b.git", some(LOWER, 20)),
        within("url-password", "redis://:@@@127.0.0.1/0", some(LOWER, 12)),
        within("bearer-token", "curl -H 'Authorization: Bearer @@' https://x", some(LETTERS, 40)),
        within("bearer-token", '{"headers": {"Authorization": "Bearer @@"}}', some(LOWER, 24)),
        within("bearer-token", r"{\"Authorization\": \"Bearer @@\"}", some(LOWER, 24)),
        within("bearer-token", "sent Bearer @@ and got 401", some(LETTERS, 40)),
        within("basic-auth", "Authorization: Basic @@", "dXNl" + some(LETTERS, 12) + "=="),
        within("api-key", "x-api-key: @@", some(LETTERS, 32)),
        within("password", "DB_PASSWORD=@@", "hunter2"),
        within("password", "export PGPASSWORD='@@'", "corr3ct;horse"),
        within("password", "A=1\nSMTP_PASS=@@\nB=2", "battery-staple"),
        within("password", r'"A=1\nMYSQL_PWD=@@\nB=2"', "swordfish"),
        within("password", '{"user": "ann", "password": "@@"}', "hunter2"),
        within("password", "- name: DB_PASSWORD\n  value: @@\n", "hunt3rTwo!x"),
        within("password", '{"name": "DB_PASSWORD", "value": "@@"}', "hunt3rTwo!x"),
        within("password", r"{\"key\": \"DB_PASSWORD\",\n \"value\": \"@@\"}", "hunt3rTwo!x"),
        within("password", '<input type="password" value="@@">', "hunt3rTwo!x"),
        within("password", 'variable "db_password" {\n  default = "@@"\n}', "hunt3rTwo!x"),
        within("password", "db_password: @@  # of the staging host", "hunt3rTwo!x"),
        within("password", "ENV DB_PASSWORD @@", "hunt3rTwo!x"),
        within("password", 'setx DB_PASSWORD "@@"', "hunt3rTwo!x"),
        within("password", "the password is @@\n", "hunt3rTwo!x"),
        within("password", 'and my password is "@@", as ever', "hunt3rTwo!x"),
        within("password", "redis-cli -h cache -a @@ ping", "hunt3rTwo!x"),
        within("password-hash", "root:$@@:19000:0", "6$" + some(LETTERS, 16) + "$" + some(LETTERS, 86)),
        within("password-hash", '"hash": "$@@"', "2b$12$" + some(LETTERS, 53)),
        within("password-hash", "ann:$@@", "apr1$" + some(LETTERS, 8) + "$" + some(LETTERS, 22)),
        within("api-key", "curl -H 'X-API-Key: @@' https://x", some(HEX, 32)),
        within("jwt", "session_@@", "eyJ" + some(LETTERS, 30) + ".eyJ" + some(LETTERS, 40) + "." + some(LETTERS, 43)),
        within("password", r"{\"password\": \"@@\"}", "hunter2"),
        within("password", 'password = "@@"', "tr0ub4dor&3"),
        within("password", "  password: @@\n  user: ann", "hunter2"),
        within("password", "<password>@@</password>", "hunter2"),
        within("password", "mysql --password @@ -u root", "hunter2"),
        within("password", "curl -u ann:@@ https://x", "hunter2"),
        within("secret", "JWT_SECRET=@@", some(LOWER, 24)),
        within("secret", "export APP_SECRET=@@", "supersecretvalue"),
        within("token", "DEPLOY_TOKEN=@@ make deploy", "SUPERSECRET"),
        within("secret", "SECRET_KEY = '@@'", some(LETTERS + "!$%^&*", 50)),
        within("secret", "client_secret: @@", some(LETTERS, 29) + "4f7"),  # a word with fewer digits may be a name
        within("token", '"refresh_token": "@@"', some(LETTERS, 64)),
        within("token", "https://x/y?access_token=@@&z=1", some(LOWER, 30)),
        within("token", "deploy --token @@", some(LOWER, 30)),
        within("token", "NPM_PUBLISH_TOKEN=@@", some(LOWER, 30)),
        within("api-key", "MAPS_KEY=@@", some(HEX, 32)),
        within("api-key", 'api_key: str = "@@"', some(LETTERS, 32)),
        within("random-token", "the key for staging is @@", some(LETTERS, 32)),
        within("random-token", "secret (from the vault) → @@", some(BASE64, 43) + "="),
    ]


def _base64(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


# Columns of a line, and the text.
_ENCODED = (
    (10_000, "apiVersion: v1\nkind: Secret\ndata:\n  tls.key: @@\n"),
    (10_000, '{"client-key-data": "@@"}'),
    (76, "$ base64 key.pem\n@@\n$ ls"),
)


def _lines(some: Callable[[str, int], str], count: int) -> str:
    dashes = "-" * 5
    body = "\n".join(some(BASE64, 64) for _ in range(count))
    return f"{dashes}BEGIN RSA PRIVATE {'KEY'}{dashes}\n{body}\n{dashes}END RSA PRIVATE {'KEY'}{dashes}\n"


def _encoded(pem: str, columns: int) -> str:
    encoded = b64encode(pem.encode()).decode()
    return "\n".join(encoded[at : at + columns] for at in range(0, len(encoded), columns))


def _private_keys() -> list[tuple[str, str]]:
    """(Line end, text), for every way in which keys come by."""
    dashes = "-" * 5
    begin, end = f"{dashes}BEGIN RSA PRIVATE {'KEY'}{dashes}", f"{dashes}END RSA PRIVATE {'KEY'}{dashes}"
    return [
        ("\n", f"{begin}\n@@\n{end}\n"),
        ("\\n", rf'{{"private_key": "{begin}\n@@\n{end}\n"}}'),
        ("\\\\n", rf"{{\"private_key\": \"{begin}\\n@@\\n{end}\"}}"),
        ("\n", f"{begin}\n@@"),
        ("\n+", f"+{begin}\n+@@\n+{end}"),
        ("\n    ", f"  key: |\n    {begin}\n    @@\n    {end}\n"),
        ("\n    17→", f"     1→{begin}\n     2→@@\n    16→{end}"),
        ("\n# ", f"# {begin}\n# @@\n# {end}\n"),
        ("\n// ", f"// {begin}\n// @@\n// {end}\n"),
        ("$\n", f"{begin}$\n@@$\n{end}$\n"),
        ("<br>\n", f"{begin}<br>\n@@<br>\n{end}<br>\n"),
        ("\nkeys/id_rsa:3:", f"keys/id_rsa:1:{begin}\nkeys/id_rsa:2:@@\nkeys/id_rsa:9:{end}\n"),
        (
            "\n",
            f"{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C3D4E5F60718293A4B5C6D7E8F9\n\n@@\n{end}\n",
        ),
    ]


INNOCENT = (
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "key 3f786850e387550fdab836ed7e6dc881de23001b",
    "the key is 123e4567-e89b-42d3-a456-426614174000",
    "token sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "cache key e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="',
    "key: data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "key toolu_01A09q90qw90lq917835lq9 msg_01XFDUDYJgAACzvnptvVoYEL call_yDJ5oXbYVzQ2Qk7sWmT1aB3c",
    "key file /home/ann/Projects/Shop2/src/Main/Java17/KeyStore2Loader.java",
    "token = get_token(request)\npassword: str\npassword = None\napi_key=os.environ['API_KEY']\n",
    "max_tokens: 4096, total_tokens=12345678, token_count: 10, key: value, primary_key = 'customer_2_id'",
    "API_KEY=${API_KEY}\nTOKEN=$TOKEN\nPASSWORD=<your password>\nSECRET={{ secrets.DEPLOY }}\nDB_PASSWORD=%s\n",
    "API_KEY=your-api-key-here\nSECRET_KEY=changeme\nTOKEN=xxxxxxxxxxxxxxxx\nPASSWORD=********\n",
    "const password: string = form.password; if (token === undefined) return secret.value",
    'password: "Enter your password", token: "identifier"',
    "the secret is to keepItSimpleAndReadable2Everyone, key maybeResetAuthOn401Response",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5zWn0Zp4mDq7bY8xX2vVgT1uR3sQ9oP6nM5lK4jH3g ann@host",
    "class sk-learn-pipeline2-with-many-steps, task-runner-1234567890, hf_hub_download(), npm_config_registry",
    "https://example.org:8080/a@b http://localhost:3000/@scope/name git@github.com:ann/shop.git",
    "-----BEGIN PRIVATE KEY----- is how such a file begins, and -----BEGIN PUBLIC KEY----- the other",
    "Bearer authentication is needed; Authorization: Bearer $TOKEN; authorization: Bearer <token>",
    "SORT_KEY=created_at PARTITION_KEY=customer_id",
    "TLS_KEY=/etc/ssl/private/2024/shop-server-key-2.pem",
    'PWD=/home/ann/shop-2\nOLDPWD=/home/ann/shop2/x1\n{"PWD": "/Users/ann/a1"}',
    "the --password option and --token parameters; connect(password=password, api_key=api_key)",
    "Public key pin-sha256: Eep0p/AsSa9lFUH6KT2UY+9s1Z8v7voAPkQ4fGknZ2g= publicKeyToken='1fc8b3b9a1e18e3b'",
    "secret = r'([a-z0-9]{64})'",
    '{"name": "token", "value": "string"} - name: PASSWORD\n  value: $(FROM_VAULT)\n  value: required',
    "the password is sha256 hashed, the token is a1 of three; the secret is out",
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJ5RENDQVcyZ0F3SUJBZ0lVUXd4bWJtRjA",
    "echo $1$2 costs $5$ or $2b; ARG TOKEN_NAME default",
    'keyboard_key = "ArrowUp", "keywords": ["a1b2"], turnkey=1, monkey: 2',
)
