"""`/healthz`: whether this web process reaches the database. Machines ask it; it needs no sign-in."""

from django.db import OperationalError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache


@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 {"database": "up"} or 503 {"database": "down"}. A dead broker is not an illness: runs move once it is back."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except OperationalError:
        return JsonResponse({"database": "down"}, status=503)
    return JsonResponse({"database": "up"})
