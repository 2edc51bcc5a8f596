"""Sign-in, sign-out and the style guide."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from accounts.selectors import CONFIRMED
from accounts.states import Actor
from console.pages import signs
from console.pages.guide import KEYS, WORDS, samples
from console.pages.room import page, respond
from runs.selectors import database_now


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
            self.fields[name].widget.attrs["aria-describedby"] = f"id_{name}_error"


class SignIn(LoginView):
    template_name = "sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign in, and keep on the session when the password was given."""
        response = super().form_valid(form)
        self.request.session[CONFIRMED] = database_now().isoformat()
        return response


sign_in = SignIn.as_view()
sign_out = LogoutView.as_view()


@page
def design(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The living style guide: every sign, component and word, drawn by the tags that the pages use."""
    machines = [
        ("Run", "run", signs.RUN),
        ("Tool call", "call", signs.CALL),
        ("Model call", "model", signs.MODEL_CALL),
        ("Wait", "wait", signs.WAIT),
        ("Stop", "control", signs.CONTROL),
        ("Obligation", "obligation", signs.OBLIGATION),
        ("Constraint, assumption", "commitment", signs.COMMITMENT),
        ("Publication", "publication", signs.PUBLICATION),
        ("Attempt", "attempt", signs.ATTEMPT),
    ]
    context = {
        "machines": [(title, key, list(table.items())) for title, key, table in machines],
        "weights": list(signs.EFFECT.items()),
        "holds": list(signs.HOLD.items()),
        "themes": ("light", "dark"),
        "words": WORDS,
        "keys": KEYS,
        **samples(),
    }
    return respond(request, actor, "design.html", context)
