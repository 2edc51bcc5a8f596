"""Every address of the console. Pages first, then the API and the parts of other apps."""

from django.urls import include, path

from console.health import healthz
from console.pages import acts, audit, bulk, delegations, entry, lineage, memory, notifications, run_list
from console.pages.call.page import call_attachment, call_page
from console.pages.checkpoint.page import checkpoint_list, checkpoint_page
from console.pages.decision.amend import amend_page
from console.pages.decision.look import assign_page, look_page, withdraw_page
from console.pages.decision.page import wait_page
from console.pages.handover.page import handover_page
from console.pages.inbox.batch import batch_page
from console.pages.inbox.page import inbox, inbox_count
from console.pages.lists.page import bulk_list, call_list, notice_list, report_list, wait_list
from console.pages.lists.views import view_list, view_page
from console.pages.measures import measures_page
from console.pages.new_run import run_new
from console.pages.overview.page import overview, overview_parts
from console.pages.policies.grants import grant_list, grant_page
from console.pages.policies.page import policy_list, policy_new, policy_page
from console.pages.question.page import answer_file
from console.pages.report.export import KINDS
from console.pages.report.page import report_download, report_export, report_page
from console.pages.run.page import run_page
from console.pages.scopes.page import scope_list, scope_new, scope_page
from console.pages.search import search
from console.pages.stop.page import stop_page
from console.pages.tags import run_tags
from console.pages.tenant import tenant_page
from console.pages.tour import tour
from console.pages.tree import lineage_page

handler400 = "console.outage.bad_request"
urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("sign-in/", entry.sign_in, name="sign-in"),
    path("sign-out/", entry.sign_out, name="sign-out"),
    path("tenant/", tenant_page, name="tenant"),
    path("design/", entry.design, name="design"),
    path("tour/", tour, name="tour"),
    path("", overview, name="overview"),
    path("parts/", overview_parts, name="overview-parts"),
    path("inbox/", inbox, name="inbox"),
    path("inbox/batch/", batch_page, name="inbox-batch"),
    path("inbox/count/", inbox_count, name="inbox-count"),
    path("search/", search, name="search"),
    path("runs/", run_list.run_list, name="runs"),
    path("runs/new/", run_new, name="run-new"),
    path("runs/<uuid:id>/", run_page, name="run"),
    path("runs/<uuid:id>/pause/", acts.run_pause_page, name="run-pause"),
    path("runs/<uuid:id>/retry/", acts.run_retry, name="run-retry"),
    path("runs/<uuid:id>/settle/", acts.run_settle, name="run-settle"),
    path("runs/<uuid:id>/bind/", acts.run_bind_more, name="run-bind"),
    path("runs/<uuid:id>/goal/", acts.run_goal, name="run-goal"),
    path("runs/<uuid:id>/tags/", run_tags, name="run-tags"),
    path("runs/<uuid:id>/budget/", acts.run_budget, name="run-budget"),
    path("runs/<uuid:id>/continue/", lineage.continue_page, name="run-continue"),
    path("runs/<uuid:id>/handover/", handover_page, name="run-handover"),
    path("runs/<uuid:id>/lineage/", lineage_page, name="run-lineage"),
    path("runs/<uuid:id>/recovery/", lineage.recovery_page, name="run-recovery"),
    path("runs/<uuid:id>/replay/", lineage.replay_page, name="run-replay"),
    path("runs/<uuid:id>/migrate/", lineage.migrate_page, name="run-migrate"),
    path("runs/<uuid:id>/repin/", lineage.repin_page, name="run-repin"),
    path("runs/<uuid:id>/checkpoints/<int:revision>/fork/", lineage.fork_page, name="checkpoint-fork"),
    path("commitments/<uuid:id>/withdraw/", acts.commitment, name="commitment-withdraw"),
    path("obligations/<uuid:id>/release/", acts.obligation, name="obligation-release"),
    path("runs/<uuid:id>/stop/", stop_page, name="stop"),
    path("runs/<uuid:id>/checkpoints/", checkpoint_list, name="checkpoints"),
    path("runs/<uuid:id>/checkpoints/<int:revision>/", checkpoint_page, name="checkpoint"),
    path("scopes/", scope_list, name="scopes"),
    path("scopes/new/", scope_new, name="scope-new"),
    path("scopes/<uuid:id>/", scope_page, name="scope"),
    path("bulks/", bulk_list, name="bulks"),
    path("bulks/new/", bulk.bulk_new, name="bulk-new"),
    path("bulks/<uuid:id>/", bulk.bulk_page, name="bulk"),
    path("views/", view_list, name="views"),
    path("views/<uuid:id>/remove/", view_page, name="view-remove"),
    path("audit/", audit.audit_list, name="audit"),
    path("audit/verified/", audit.audit_verified, name="audit-verified"),
    path("waits/", wait_list, name="waits"),
    path("waits/<uuid:id>/", wait_page, name="wait"),
    path("waits/<uuid:id>/answer/", answer_file, name="wait-answer-file"),
    path("waits/<uuid:id>/amend/", amend_page, name="wait-amend"),
    path("waits/<uuid:id>/withdraw/", withdraw_page, name="wait-withdraw"),
    path("waits/<uuid:id>/look/", look_page, name="wait-look"),
    path("waits/<uuid:id>/assign/", assign_page, name="wait-assign"),
    path("measures/", measures_page, name="measures"),
    path("delegations/", delegations.delegation_list, name="delegations"),
    path("delegations/<uuid:id>/end/", delegations.delegation_end_page, name="delegation-end"),
    path("calls/", call_list, name="calls"),
    path("calls/<uuid:id>/", call_page, name="call"),
    path("calls/<uuid:id>/attachments/<uuid:attachment>/", call_attachment, name="call-attachment"),
    path("reports/", report_list, name="reports"),
    path("reports/<uuid:id>/", report_page, name="report"),
    path("reports/<uuid:id>/<int:version>.md", report_download, name="report-download"),
    *(
        path(f"reports/<uuid:id>/<int:version>/export.{kind}", report_export, {"kind": kind}, name=f"report-{kind}")
        for kind in KINDS
    ),
    path("calls/<uuid:id>/repeat/", lineage.repeat_page, name="call-repeat"),
    path("calls/<uuid:id>/contradict/", acts.call_flag, name="call-contradict"),
    path("contradictions/<uuid:id>/close/", acts.contradiction, name="contradiction-close"),
    path("grants/", grant_list, name="grants"),
    path("grants/<uuid:id>/", grant_page, name="grant"),
    path("policies/", policy_list, name="policies"),
    path("policies/new/", policy_new, name="policy-new"),
    path("policies/<int:number>/", policy_page, name="policy"),
    path("workspaces/", memory.workspace_list, name="workspaces"),
    path("workspaces/<uuid:id>/", memory.workspace_page, name="workspace"),
    path("memory/", memory.memory_list, name="memory"),
    path("settings/notifications/told/", notice_list, name="notices"),
    path("settings/notifications/", notifications.notifications, name="notifications"),
    path("settings/notifications/<uuid:id>/", notifications.notification, name="notification"),
    path("settings/notifications/<uuid:id>/remove/", notifications.notification_remove, name="notification-remove"),
    path("api/v1/", include("console.api.urls")),
]
