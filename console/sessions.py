"""Where sessions are kept: in the database, as Django's own store does it."""

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore

from accounts.selectors import is_session_key


class SessionStore(DatabaseStore):
    """A cookie that holds no key is none. Django would ask the database for it, which fails for what no text may hold."""

    def _validate_session_key(self, key: str | None) -> bool:
        return bool(key) and is_session_key(str(key))
