"""Django's database entry from a libpq URL."""

from pathlib import Path

from console.environment import database, patient
from console.local.sockets import database_url


def test_every_part_of_the_url_reaches_the_driver() -> None:
    entry = database("postgresql://me:pa%40ss@db.example:6432/box?sslmode=verify-full&application_name=web", pool=False)
    assert (entry["NAME"], entry["USER"], entry["PASSWORD"]) == ("box", "me", "pa@ss")
    assert (entry["HOST"], entry["PORT"], entry["CONN_MAX_AGE"]) == ("db.example", "6432", None)
    assert entry["OPTIONS"]["sslmode"] == "verify-full" and entry["OPTIONS"]["application_name"] == "web"
    assert "pool" not in entry["OPTIONS"]


def test_a_socket_folder_with_odd_characters_survives_the_url() -> None:
    entry = database(database_url(Path("/srv/my box #1?&"), "signalbox"), pool=True)
    assert (entry["HOST"], entry["NAME"], entry["USER"]) == ("/srv/my box #1?&", "signalbox", "postgres")
    assert entry["CONN_MAX_AGE"] == 0 and entry["OPTIONS"]["pool"]


def test_no_session_waits_for_hours_on_a_network_that_swallows_everything() -> None:
    """Unless the URL says so: by default an idle session hears of a dead network after two hours."""
    options = database("postgresql://ann@db.example/signalbox?tcp_user_timeout=5000", pool=False)["OPTIONS"]
    silent = int(options["keepalives_idle"]) + int(options["keepalives_interval"]) * int(options["keepalives_count"])
    assert (silent, options["tcp_user_timeout"], options["connect_timeout"]) == (25, "5000", "10")
    assert patient("host=db.example")["keepalives_idle"] == "10"
