"""Django's database entry from a libpq URL."""

from pathlib import Path

from console.environment import database
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
