"""The OpenAPI document, asked for many times at once in a process that has never written it. Run by test_api.py."""

import sys
from concurrent.futures import ThreadPoolExecutor

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate

from accounts.models import User
from console.api.view import Document


def ask(_: int) -> int:
    """The status of one answer."""
    request: Request = APIRequestFactory().get("/api/v1/schema/")
    force_authenticate(request, User(username="vera"))
    answer: Response = Document.as_view()(request).render()
    return answer.status_code


def main() -> None:
    """Write the statuses of eight that ask at once."""
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(8) as pool:
        sys.stdout.write(f"{sorted(set(pool.map(ask, range(8))))}\n")
