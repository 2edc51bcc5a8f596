"""Every address of the console. Pages first, then the API and the parts of other apps."""

from django.urls import path

from console.health import healthz
from console.pages import acts, entry, run_list
from console.pages.inbox.page import inbox, inbox_count
from console.pages.new_run import run_new
from console.pages.overview.page import overview, overview_parts
from console.pages.run.page import run_page

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("sign-in/", entry.sign_in, name="sign-in"),
    path("sign-out/", entry.sign_out, name="sign-out"),
    path("design/", entry.design, name="design"),
    path("", overview, name="overview"),
    path("parts/", overview_parts, name="overview-parts"),
    path("inbox/", inbox, name="inbox"),
    path("inbox/count/", inbox_count, name="inbox-count"),
    path("search/", run_list.search, name="search"),
    path("runs/", run_list.run_list, name="runs"),
    path("runs/new/", run_new, name="run-new"),
    path("runs/<uuid:id>/", run_page, name="run"),
    path("runs/<uuid:id>/retry/", acts.run_retry, name="run-retry"),
    path("runs/<uuid:id>/goal/", acts.run_goal, name="run-goal"),
    path("obligations/<uuid:id>/release/", acts.obligation, name="obligation-release"),
]
