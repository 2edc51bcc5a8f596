"""What the surroundings may set. One typed place; every other module reads django.conf.settings."""

import fcntl
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from psycopg.conninfo import conninfo_to_dict
from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

BASE_DIR = Path(__file__).resolve().parent.parent
PREFIX = "SIGNALBOX_"
LOCK_FILE = "up.lock"
ADDRESSES_FILE = "env.json"


class ModelPrice(BaseModel):
    """Dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Annotated[Decimal, Field(ge=0)]
    output: Annotated[Decimal, Field(ge=0)]


class Environment(BaseSettings):
    """Environment variables, each with its default for a laptop. Production sets the first block.

    What they leave open comes from the `up` that runs on this machine, if one does and this is not production.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore")

    production: bool = False
    secret_key: str = ""
    master_key: str = ""
    allowed_hosts: str = "localhost,127.0.0.1,[::1]"
    trusted_origins: str = ""
    database_url: str = ""
    broker_url: str = ""
    var_dir: Path = BASE_DIR / "var"
    postgres_bin: Path | None = None
    db_pool: bool = True
    liveness: bool = True
    liveness_database_url: str = ""
    log_level: str = "INFO"
    # How long a web process waits for one answer of the database before it says that there is none.
    answer_seconds: Annotated[float, Field(gt=0)] = 8.0

    lease_ttl_seconds: float = 15.0
    heartbeat_seconds: float = 5.0
    sweep_seconds: float = 2.0
    max_takeovers: int = 5
    environment: str = ""
    wait_deadline_seconds: int = 24 * 3600
    wait_validity_seconds: int = 24 * 3600
    retry_base_seconds: float = 0.5
    retry_hold_seconds: float = 2.0
    retry_max_seconds: float = 300.0
    max_attempts: int = 3
    retain_latest: Annotated[int, Field(ge=1)] = 100
    retain_daily: bool = True
    fault_dir: str = ""

    # Where people reach the pages: what a link in a notice begins with.
    public_url: str = ""
    # Networks beside the public ones that notices may go to, as "10.1.2.0/24".
    notice_networks: tuple[IPvAnyNetwork, ...] = ()
    notice_seconds: Annotated[float, Field(gt=0)] = 10.0
    notice_attempts: Annotated[int, Field(ge=1)] = 8
    # How long what was told is kept, for `manage.py endpoints purge`.
    retain_notices_days: Annotated[int, Field(ge=1)] = 90
    # How long something does not move before people are told that it is stuck.
    notice_stuck_seconds: Annotated[float, Field(gt=0)] = 120.0
    notice_digest_seconds: Annotated[int, Field(ge=60)] = 24 * 3600
    # The server that takes mail from this installation; without one there is no mail.
    mail_host: str = ""
    mail_port: int = 587
    mail_user: str = ""
    mail_password: str = ""
    mail_tls: bool = True
    mail_from: str = "signalbox@localhost"

    outside_url: str = ""
    model_gateway: str = "scripted"
    model_base_url: str = ""
    model_name: str = ""
    model_api_key_ref: str = ""
    model_prices: dict[str, ModelPrice] = {}
    tool_secrets: dict[str, str] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment variables win over what a running `up` left for other commands; production takes only those."""
        if env_settings().get("production", "").lower() in {"", "0", "false", "no", "off"}:
            return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=left_by_up())
        return init_settings, env_settings


def left_by_up() -> dict[str, Any]:
    """What the `up` that runs on this machine left for other commands, by field; empty when none runs."""
    var_dir = Path(os.environ.get(f"{PREFIX}VAR_DIR") or BASE_DIR / "var")
    if not up_is_running(var_dir):
        return {}
    left: dict[str, str] = json.loads((var_dir / ADDRESSES_FILE).read_text())
    return {name.removeprefix(PREFIX).lower(): value for name, value in left.items()}


def up_is_running(var_dir: Path) -> bool:
    """Whether an `up` holds the lock of a var folder and has left its addresses there."""
    if not (var_dir / ADDRESSES_FILE).exists():
        return False
    descriptor = os.open(var_dir / LOCK_FILE, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


# A frozen process inside a transaction must not keep others from a lease for longer than this (T31).
SESSION_GUARDS = "-c lock_timeout=15s -c idle_in_transaction_session_timeout=10s"
# What a page asks takes some milliseconds, less than it takes to start processes that help with it.
SESSION_PLANS = "-c max_parallel_workers_per_gather=0"
# Where the network swallows everything, nobody says that the database is gone: by itself a session waits for hours.
PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


def patient(url: str) -> dict[str, str]:
    """The parameters of a libpq URL. How long an answer of the network is waited for is ours, unless the URL says so."""
    return {name: str(value) for name, value in {**PATIENCE, **conninfo_to_dict(url)}.items() if value is not None}


def database(url: str, pool: bool) -> dict[str, Any]:
    """Django's DATABASES entry for a libpq URL. The statements of a step are prepared at once, others when they come often.

    Django would turn preparing off, for poolers that hand a session on between two transactions.
    """
    parts = patient(url)
    known = {name: parts.pop(name, "") for name in ("user", "password", "host", "port")}
    name = parts.pop("dbname", "signalbox")
    options: dict[str, Any] = {"options": f"{SESSION_GUARDS} {SESSION_PLANS}", **parts}
    options |= {"server_side_binding": True, "prepare_threshold": 5}
    if pool:
        options["pool"] = {"min_size": 1, "max_size": 20, "timeout": 5}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        **{name.upper(): value for name, value in known.items()},
        "CONN_MAX_AGE": 0 if pool else None,
        "OPTIONS": options,
    }
