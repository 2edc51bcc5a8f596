"""Settings of the tests: a PostgreSQL and a broker of this run's own, and short times.

The tests' servers live in a folder named by this process, so two runs in one checkout do not meet. tests/conftest.py
starts them when the first test asks for a database. Real processes that a test starts inherit the variables set here.
"""

import os

from console.environment import BASE_DIR, PREFIX, database
from console.local.sockets import database_url, socket_dir
from console.local.valkey import url as broker_url

KEPT = {"SIGNALBOX_POSTGRES_BIN", "SIGNALBOX_REQUIRE_BROWSER"}
for name in [name for name in os.environ if name.startswith(PREFIX) and name not in KEPT]:
    del os.environ[name]

RUN_DIR = BASE_DIR / "var" / "test" / f"run-{os.getpid()}"
SOCKET_DIR = socket_dir(RUN_DIR)
BROKER_SOCKET = SOCKET_DIR / "valkey.sock"
os.environ.update(
    SIGNALBOX_VAR_DIR=str(RUN_DIR),
    SIGNALBOX_BROKER_URL=broker_url(BROKER_SOCKET),
    SIGNALBOX_DB_POOL="false",
    SIGNALBOX_LEASE_TTL_SECONDS="2",
    SIGNALBOX_HEARTBEAT_SECONDS="0.5",
    SIGNALBOX_SWEEP_SECONDS="0.3",
    SIGNALBOX_RETRY_BASE_SECONDS="0.1",
)

from console.settings import *  # noqa: E402, F403  it reads what was set above

DATABASES = {"default": database(database_url(SOCKET_DIR, "signalbox"), pool=False)}
PASSWORD_HASHERS = ["tests.hashers.OneRound"]
# Both are sent by a thread, which must not outlive a test's database. A test that reads one turns it on, and flushes it.
LIVE_HINTS = False
TRACE = False
# A client of the tests makes the whole chain anew, and this one looks through all static files then: most of what a test of
# a page took. Those files are asked for of the real server, which has it (tests/pages/looks).
MIDDLEWARE = [name for name in MIDDLEWARE if not name.startswith("servestatic.")]  # noqa: F405
