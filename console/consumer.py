"""How a worker goes on when the connection to its broker is lost."""

from celery.worker import state
from celery.worker.consumer import Consumer


class LastingConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Celery's consumer, for workers whose tasks outlive their broker."""

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Give nothing back, and acknowledge nothing later, over the connection that was lost: what was taken over it is
        settled with it, and the sweep hints again at what is not done.

        Kombu tries both where a task is under way, and breaks the worker on it: it would carry that run to its end, take no
        other one meanwhile, and be gone then.
        """
        for channel in getattr(self.connection.transport, "channels", ()):
            channel.do_restore = False
        for request in {*state.reserved_requests, *state.active_requests}:
            request.acknowledged = True
        super().on_connection_error_after_connected(exc)
