"""`/healthz`: whether this web process reaches the database. Machines ask it; it needs no sign-in."""

from django.db import OperationalError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache

from console import clock
from console.pages.times import exact_time


@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 {"database": "up"} or 503 {"database": "down"}. A dead broker is not an illness: runs move once it is back.

    A page whose browser's clock was set asks here what time it is by the database's.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except OperationalError:
        return JsonResponse({"database": "down"}, status=503)
    return JsonResponse({"database": "up"}, headers={"Signalbox-Now": exact_time(clock.now())})
