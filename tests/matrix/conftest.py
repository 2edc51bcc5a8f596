"""One system for the matrix."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from runtime.registry import agents
from tests.matrix import report
from tests.matrix.stage import Stage, durable, running_stage, stack_on
from tests.services import TEMPLATE, Services, using_database
from tests.stack import Stack

DATABASE = "matrix"


@pytest.fixture(scope="package")
def matrix_stack(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    services.cluster.create_database(DATABASE, template=TEMPLATE)
    folder: Path = tmp_path_factory.mktemp("matrix")
    stack = stack_on(services, DATABASE, folder)
    durable(stack, DATABASE)
    try:
        yield stack
    finally:
        stack.close()
        services.drop(DATABASE)


@pytest.fixture(scope="package")
def stage(matrix_stack: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[Stage]:
    """The running system. Hints come from the real processes, not from this one."""
    told = override_settings(AGENTS=[*settings.AGENTS, "tests.matrix.agents.Matrix"])
    with told, using_database(DATABASE), django_db_blocker.unblock(), running_stage(matrix_stack) as running:
        agents.cache_clear()
        yield running
    agents.cache_clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of the cells that were played."""
    lines = report.table(report.played_cells) if report.played_cells else []
    for line in lines + (report.store_lines() if report.struck else []):
        terminalreporter.write_line(line)
