"""Fixtures of the whole suite.

- `db`, `transactional_db` (pytest-django): the shared test database, in the usual way.
- `live_database`: a database of the test's own, committed to for real: for races and for processes.
- `stack`: real workers, clock, web server and outside world on a `live_database`, as the test starts them.
- `browser`: one Chromium for the run.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright
from pytest_django import DjangoDbBlocker

from tests import services as test_services
from tests.stack import Stack

# The first row is what Playwright turns off itself, which a second list of ours replaces. The others are made anew for every
# context, by processes of their own that no test looks at: the lists under the line of addresses, and a renderer in reserve.
NO_FEATURES = ",".join(
    [
        *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay"),
        *("HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning"),
        *("AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"),
        "PreconnectToSearch",
        *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess"),
    ]
)
CHROMIUM_ARGUMENTS = [
    f"--disable-features={NO_FEATURES}",
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: Playwright's event loop stays in this thread, and Django refuses sync code beside one."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.fixture(scope="session")
def services(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[test_services.Services]:
    with ExitStack() as stack:
        with django_db_blocker.unblock():  # the template may have to be migrated
            running = stack.enter_context(test_services.running_services())
        yield running


@pytest.fixture(scope="session")
def django_db_setup(services: test_services.Services, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Replaces pytest-django's: the shared test database is a clone of the migrated template, like every other."""
    services.cluster.create_database("test_signalbox", template=test_services.TEMPLATE)
    with test_services.using_database("test_signalbox"):
        yield


@pytest.fixture
def live_database(services: test_services.Services, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The libpq URL of a fresh migrated database that Django's connections point at, in every thread."""
    with test_services.cloned_database(services) as url, django_db_blocker.unblock():
        yield url


@pytest.fixture
def stack(services: test_services.Services, live_database: str, tmp_path: Path) -> Iterator[Stack]:
    """Nothing runs yet: the test starts what it needs. Everything is killed at the end."""
    started = Stack(services, live_database, tmp_path)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium. Without one the test is skipped, or fails where SIGNALBOX_REQUIRE_BROWSER is set."""
    # Playwright runs an event loop in this thread; Django would refuse the ORM here because of it.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        path = _chromium_path(playwright)
        if path is None:
            missing = pytest.fail if os.environ.get("SIGNALBOX_REQUIRE_BROWSER") else pytest.skip
            missing("No Chromium here: install Debian's chromium, or run `playwright install chromium`.")
        launched = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield launched
        launched.close()


def _chromium_path(playwright: Playwright) -> str | None:
    installed = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    brought = playwright.chromium.executable_path
    return next(filter(None, installed), brought if Path(brought).exists() else None)
