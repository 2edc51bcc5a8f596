"""Settings of workers whose broker delivers again what is not acknowledged within a second."""

from console.settings import CELERY_BROKER_TRANSPORT_OPTIONS as _LASTING
from tests.scenarios.settings import *  # noqa: F403

CELERY_BROKER_TRANSPORT_OPTIONS = {**_LASTING, "visibility_timeout": 1}
