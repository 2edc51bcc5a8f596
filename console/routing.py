"""Which consumer serves which WebSocket path."""

from django.urls import URLPattern, path

from runs.consumers import LiveConsumer

websocket_urlpatterns: list[URLPattern] = [path("ws/live/", LiveConsumer.as_asgi(), name="live")]
