"""Texts without the secrets in them: passwords, tokens, and what else a URL may hide."""

from __future__ import annotations

import re

HIDDEN = "***"

# All between a user's name and the last `@`: what a URL says wrongly may have a password anywhere there.
_PASSWORD_OF_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@?]*):\S*@", re.IGNORECASE)
_PASSWORD_VALUE = re.compile(r"\b((?:ssl)?password|passfile|oauth_client_secret)=[^\s&'\"]*", re.IGNORECASE)

SECRET_NAME = r"[\w.-]*(?:password|passwd|passphrase|secret|token|credential|api[_-]?key|access[_-]?key|auth)[\w.-]*"
_SECRET_VALUE = re.compile(rf"\b({SECRET_NAME}\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s&;,]+)", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_USER_OF_URL = re.compile(r"([a-z][a-z0-9+.-]*://)([^/\s@]*@)+", re.IGNORECASE)
_QUERY_OF_URL = re.compile(r"([a-z][a-z0-9+.-]*://[^\s?'\"]*\?)[^\s'\"]+", re.IGNORECASE)
# Who knows the path of a webhook may write to it.
_WEB_PATH = re.compile(r"(https?://[^/\s'\"]+/)[^\s'\"]+", re.IGNORECASE)


def without_password(text: str) -> str:
    """A text, such as a URL or a command, with `***` in place of passwords in URLs; it still says who and where."""
    return _PASSWORD_VALUE.sub(rf"\1={HIDDEN}", _PASSWORD_OF_URL.sub(rf"\1:{HIDDEN}@", text))


def hidden_secrets(argument: str) -> str:
    """A text without passwords, and without the tokens, users and paths of webhooks in it: fit to be kept."""
    text = _BEARER.sub(rf"\1 {HIDDEN}", without_password(argument))
    text = _SECRET_VALUE.sub(rf"\1{HIDDEN}", text)
    text = _USER_OF_URL.sub(rf"\1{HIDDEN}@", text)
    text = _WEB_PATH.sub(rf"\1{HIDDEN}", text)
    return _QUERY_OF_URL.sub(rf"\1{HIDDEN}", text)
