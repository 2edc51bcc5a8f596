"""What the surroundings may set. One typed place; every other module reads django.conf.settings."""

from pathlib import Path

from psycopg.conninfo import conninfo_to_dict
from pydantic_settings import BaseSettings, SettingsConfigDict

BASE_DIR = Path(__file__).resolve().parent.parent


class Environment(BaseSettings):
    """Environment variables, each with its default for a laptop. Production sets the first block."""

    model_config = SettingsConfigDict(env_prefix="SIGNALBOX_", extra="ignore")

    production: bool = False
    secret_key: str = ""
    master_key: str = ""
    allowed_hosts: str = "localhost,127.0.0.1,[::1]"
    trusted_origins: str = ""
    database_url: str = ""
    broker_url: str = ""
    var_dir: Path = BASE_DIR / "var"
    db_pool: bool = True
    log_level: str = "INFO"

    lease_ttl_seconds: float = 15.0
    heartbeat_seconds: float = 5.0
    sweep_seconds: float = 2.0
    max_takeovers: int = 5
    wait_deadline_seconds: int = 24 * 3600
    wait_validity_seconds: int = 24 * 3600
    retry_base_seconds: float = 0.5
    max_attempts: int = 3
    fault_dir: str = ""

    outside_url: str = ""
    model_gateway: str = "scripted"
    model_base_url: str = ""
    model_name: str = ""
    model_api_key_ref: str = ""


def database(url: str, pool: bool) -> dict[str, object]:
    """Django's DATABASES entry for a libpq URL. Server-side binding lets a hot statement stay prepared."""
    parts = conninfo_to_dict(url)
    options: dict[str, object] = {"server_side_binding": True, "prepare_threshold": 0}
    if pool:
        options["pool"] = {"min_size": 1, "max_size": 20, "timeout": 10}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.get("dbname", "signalbox"),
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": str(parts.get("port", "")),
        "CONN_MAX_AGE": 0 if pool else None,
        "OPTIONS": options,
    }
