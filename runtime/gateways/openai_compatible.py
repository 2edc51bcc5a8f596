"""The gateway to a real model: any endpoint that speaks OpenAI's chat completions, through pydantic-ai.

One call is one request on the wire: retries of the client are off, so that each try has its receipt. Importing this
module takes seconds, so only a worker that asks a real model does.
"""

import asyncio
from typing import ClassVar

from openai import APIStatusError, AsyncOpenAI, OpenAIError
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from runtime.contracts import (
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelRequest,
    ModelRetryable,
    ModelTurn,
    ModelUnknown,
)
from runtime.gateways import translation
from runtime.gateways.secrets import SecretMissing, resolve
from runtime.retry_after import retry_after

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEYLESS = "no-key"  # the client insists on one; servers on the own machine often want none
SAID = 300


class OpenAICompatibleGateway:
    """Asks the model named by the request. The key is looked up by its reference at every try and kept nowhere."""

    key: ClassVar[str] = "openai"

    def __init__(self, base_url: str, api_key_ref: str) -> None:
        """`base_url` is the address above /chat/completions, "" for OpenAI's; the key is at env:NAME or file:PATH."""
        self._base_url = base_url or DEFAULT_BASE_URL
        self._api_key_ref = api_key_ref

    def ask(self, request: ModelRequest) -> ModelTurn:
        """Ask once, within the request's time limit. For threads without a running event loop.

        Raises ModelRetryable for 429, 503 and a connection that could not be opened, ContextOverflow for a request that is
        too long, ModelRefused for 401, 403 and a missing key, ModelFailed for any other 4xx, and ModelUnknown where no
        usable answer came.
        """
        try:
            api_key = resolve(self._api_key_ref)
        except SecretMissing as error:
            raise ModelRefused(str(error)) from error
        messages = translation.messages(request)
        parameters = ModelRequestParameters(function_tools=translation.tools(request.tools))
        try:
            response = asyncio.run(self._request(request, api_key, messages, parameters))
        except TimeoutError as error:
            raise ModelUnknown(f"No complete answer within {request.timeout_seconds:g} s.") from error
        except (ModelAPIError, UnexpectedModelBehavior, OpenAIError, ValueError) as error:
            raise _proved(error) from error
        return translation.turn(response)

    async def _request(
        self,
        request: ModelRequest,
        api_key: str,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        client = AsyncOpenAI(
            base_url=self._base_url, api_key=api_key or KEYLESS, max_retries=0, timeout=request.timeout_seconds
        )
        model = OpenAIChatModel(request.model, provider=OpenAIProvider(openai_client=client))
        async with asyncio.timeout(request.timeout_seconds), client:
            return await model_request(model, messages, model_request_parameters=parameters)


def _proved(error: Exception) -> ModelRetryable | ModelFailed | ModelUnknown:
    """What an error of the client proves about the try."""
    said = str(error)[:SAID]
    if isinstance(error, ModelHTTPError) and error.status_code in (429, 503):
        return ModelRetryable(f"The provider can't now ({said}).", retry_after=_asked_to_wait(error))
    if isinstance(error, ModelHTTPError) and error.status_code in (400, 413) and _too_long(error):
        return ContextOverflow(f"The request is longer than the model can read ({said}).")
    if isinstance(error, ModelHTTPError) and error.status_code in (401, 403):
        return ModelRefused(f"The provider does not answer us ({said}).")
    if isinstance(error, ModelHTTPError) and 400 <= error.status_code < 500:
        return ModelFailed(f"The provider refused ({said}).")
    if isinstance(error, ModelConnectionError) and error.phase in ("pool", "connect"):
        return ModelRetryable(f"No connection to the provider ({said}). Nothing was sent.")
    return ModelUnknown(f"No usable answer ({said}).")


def _asked_to_wait(error: ModelHTTPError) -> float | None:
    """What the provider's answer asks us to wait."""
    cause = error.__cause__
    return retry_after(cause.response.headers) if isinstance(cause, APIStatusError) else None


def _too_long(error: ModelHTTPError) -> bool:
    """Whether a refusal is about the length of the request. Providers say it as a code, or only in words."""
    said = str(error.body).lower()
    return "context_length_exceeded" in said or "maximum context length" in said or "prompt is too long" in said
