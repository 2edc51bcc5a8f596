"""The ways to a model. A worker asks `gateway()` for the configured one; nothing else here is used by the loop."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from runtime.contracts import Gateway
from runtime.gateways.scripted import ScriptedGateway


def gateway() -> Gateway:
    """The gateway that the settings name: MODEL_GATEWAY, and for `openai` MODEL_BASE_URL and MODEL_API_KEY_REF."""
    wanted: str = settings.MODEL_GATEWAY
    if wanted == ScriptedGateway.key:
        return ScriptedGateway(settings.AGENTS)
    if wanted == "openai":
        # Takes seconds to import, and only a worker that asks a real model needs it.
        from runtime.gateways.openai_compatible import OpenAICompatibleGateway  # noqa: PLC0415

        return OpenAICompatibleGateway(settings.MODEL_BASE_URL, settings.MODEL_API_KEY_REF)
    raise ImproperlyConfigured(f"SIGNALBOX_MODEL_GATEWAY is {wanted!r}; it must be scripted or openai.")
