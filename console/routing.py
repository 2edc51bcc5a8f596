"""Which consumer serves which WebSocket path."""

from django.urls import URLPattern

websocket_urlpatterns: list[URLPattern] = []
