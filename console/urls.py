"""Every address of the console. Pages first, then the API and the parts of other apps."""

from django.urls import path

from console.health import healthz
from console.pages import entry

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("sign-in/", entry.sign_in, name="sign-in"),
    path("sign-out/", entry.sign_out, name="sign-out"),
    path("design/", entry.design, name="design"),
]
