"""Live panels: one LISTEN connection of the web process, and the sockets that it hands hints to."""

from runs.consumers.live import LiveConsumer

__all__ = ["LiveConsumer"]
