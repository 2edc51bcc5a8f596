"""The ASGI application: Django's pages and API, and the live sockets."""

import gc
import os

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import re_path, resolve

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
pages = get_asgi_application()

from console import clock  # noqa: E402
from console.bodies import BoundedBodies  # noqa: E402
from console.origin import SameOrigin  # noqa: E402  needs the apps that get_asgi_application loads
from console.patience import give_up_after  # noqa: E402
from console.routing import websocket_urlpatterns  # noqa: E402

give_up_after(settings.ANSWER_SECONDS)
clock.keep()
sockets = URLRouter([*websocket_urlpatterns, re_path("", WebsocketDenier.as_asgi())])
application = ProtocolTypeRouter({"http": BoundedBodies(pages), "websocket": SameOrigin(CookieMiddleware(sockets))})

# What is loaded by now, every page with it, stays until the process ends. Each full collection would look through it and hold up
# whoever asks at that moment for 150 ms.
resolve("/")
gc.collect()
gc.freeze()
