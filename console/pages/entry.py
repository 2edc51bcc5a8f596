"""Sign-in, sign-out and the style guide."""

from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core import signing
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from accounts.errors import TooManyTries
from accounts.selectors import CONFIRMED
from accounts.services import Device, sign_in_counters, sign_in_failed, try_begin, try_worked, wrong_so_far
from accounts.states import Actor
from console.pages import signs
from console.pages.contrast import contrasts
from console.pages.glossary import glossary
from console.pages.guide import KEYS, samples
from console.pages.room import page, respond
from runs.selectors import database_now

DEVICE = "signalbox_device"
DEVICE_AGE = 180 * 24 * 3600


class SignInForm(AuthenticationForm):
    """Django's form with the console's words."""

    error_messages = {
        "invalid_login": "Not signed in. The name and the password do not belong together.",
        "inactive": "Not signed in. This account is switched off.",
    }

    def __init__(self, request: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.fields["username"].label = "Name"
        if self.is_bound:  # the name is there already
            self.fields["username"].widget.attrs.pop("autofocus", None)
            self.fields["password"].widget.attrs["autofocus"] = True
        for name in ("username", "password"):
            self.fields[name].error_messages["required"] = "Fill this in."
        self.waits: TooManyTries | None = None

    def clean(self) -> dict[str, Any]:
        """Look at the password, unless there were too many wrong ones; a try counts before it is looked at."""
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password or self.request is None:
            return super().clean()
        address = self.request.META.get("REMOTE_ADDR", "")
        counters = sign_in_counters(name=name, address=address, device=device_of(self.request))
        self.waits = try_begin(counters)
        if self.waits is not None:
            when = "Not signed in. Too many wrong passwords were given. Try again in {seconds} s, at {at}."
            raise ValidationError(when.format(**self.waits.facts), code="too_many_tries")
        try:
            cleaned = super().clean()
        except ValidationError:
            sign_in_failed(name=name, address=address, wrong=wrong_so_far(counters))
            raise
        try_worked(counters)
        return cleaned


def device_of(request: HttpRequest) -> Device | None:
    """The browser as one on which somebody has signed in before, by a cookie that only this installation can make."""
    try:
        username, nonce = signing.loads(request.COOKIES.get(DEVICE, ""), salt=DEVICE, max_age=DEVICE_AGE)
    except (signing.BadSignature, TypeError, ValueError):
        return None
    return Device(username, nonce)


class SignIn(LoginView):
    template_name = "sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_success_url(self) -> str:
        """Where to go on; never to this page itself, where nobody would arrive anywhere."""
        url = super().get_success_url()
        return self.get_default_redirect_url() if urlsplit(url).path == self.request.path else url

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign in, keep on the session when the password was given, and know this browser from now on."""
        response = super().form_valid(form)
        forget_messages(self.request)
        self.request.session[CONFIRMED] = database_now().isoformat()
        username, device = form.get_user().get_username(), device_of(self.request)
        nonce = device.nonce if device and device.username == username else token_urlsafe(16)
        known = signing.dumps([username, nonce], salt=DEVICE)
        secure = bool(settings.SESSION_COOKIE_SECURE)
        response.set_cookie(DEVICE, known, max_age=DEVICE_AGE, secure=secure, httponly=True, samesite="Lax")
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Say why not; a program is told when it may try again."""
        response = super().form_invalid(form)
        waits = form.waits if isinstance(form, SignInForm) else None
        if waits is not None:
            response.status_code = waits.status
            response["Retry-After"] = str(waits.facts["seconds"])
        return response


class SignOut(LogoutView):
    """What was about to be said is said to nobody else."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        forget_messages(request)
        return super().post(request, *args, **kwargs)


def forget_messages(request: HttpRequest) -> None:
    """Drop what was to be said on the next page: it was about an act of whoever sat here before."""
    list(messages.get_messages(request))


sign_in = SignIn.as_view()
sign_out = SignOut.as_view()


@page
def design(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The living style guide: every sign, component and word, drawn by the tags that the pages use.

    `?help=` answers with one entry of the glossary alone, as the help beside a sign shows it.
    """
    if key := request.GET.get("help", ""):
        return _help(request, actor, key)
    terms = list(glossary().values())
    context = {
        "machines": [(title, key, [one for one in terms if one.machine == key]) for key, title in _drawn()],
        "weights": list(signs.EFFECT.items()),
        "holds": [one for one in terms if one.kind == "Why a run is held"],
        "refusals": sorted((one for one in terms if one.kind == "Refusal"), key=lambda one: one.word),
        "themes": ("light", "dark"),
        "words": [one for one in terms if one.kind == "Word"],
        "contrasts": contrasts(),
        "keys": KEYS,
        **samples(),
    }
    return respond(request, actor, "design.html", context)


def _help(request: HttpRequest, actor: Actor, key: str) -> HttpResponseBase:
    found = glossary().get(key)
    if found is None:
        raise Http404
    return respond(request, actor, "components/help.html", {"term": found})


def _drawn() -> list[tuple[str, str]]:
    """What has states with chips. The live states are drawn as the top bar draws them."""
    return [(machine, title) for machine, title in signs.MACHINE_WORDS.items() if machine != "live"]
