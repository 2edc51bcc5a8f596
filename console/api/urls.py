"""The addresses of the API, below /api/v1/."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularJSONAPIView

from console.api import (
    acts,
    calls,
    checkpoints,
    commitments,
    contradictions,
    lineage,
    memory,
    obligations,
    reports,
    runs,
    trace,
    waits,
)
from console.api.view import Missing

app_name = "api"
urlpatterns = [
    path("schema/", SpectacularJSONAPIView.as_view(), name="schema"),
    path("runs/", runs.Runs.as_view(), name="runs"),
    path("runs/<uuid:id>/", runs.OneRun.as_view(), name="run"),
    path("runs/<uuid:id>/stop/", acts.RunStop.as_view(), name="run-stop"),
    path("runs/<uuid:id>/pause/", acts.RunPause.as_view(), name="run-pause"),
    path("runs/<uuid:id>/resume/", acts.RunResume.as_view(), name="run-resume"),
    path("runs/<uuid:id>/settle/", acts.RunSettle.as_view(), name="run-settle"),
    path("runs/<uuid:id>/terms/", acts.RunTerms.as_view(), name="run-terms"),
    path("runs/<uuid:id>/goal/", acts.RunGoal.as_view(), name="run-goal"),
    path("runs/<uuid:id>/budget/", acts.RunBudget.as_view(), name="run-budget"),
    path("runs/<uuid:id>/continue/", lineage.RunContinue.as_view(), name="run-continue"),
    path("runs/<uuid:id>/trace/", trace.RunTrace.as_view(), name="run-trace"),
    path("runs/<uuid:id>/replay/", lineage.RunReplay.as_view(), name="run-replay"),
    path("runs/<uuid:id>/migrate/", acts.RunMigrate.as_view(), name="run-migrate"),
    path("runs/<uuid:id>/repin/", acts.RunRepin.as_view(), name="run-repin"),
    path("runs/<uuid:id>/inputs/", runs.RunInputs.as_view(), name="run-inputs"),
    path("runs/<uuid:id>/inputs/<slug:name>/", runs.RunInputFile.as_view(), name="run-input"),
    path("runs/<uuid:id>/reports/", reports.RunReports.as_view(), name="run-reports"),
    path("runs/<uuid:id>/checkpoints/", checkpoints.Checkpoints.as_view(), name="checkpoints"),
    path("runs/<uuid:id>/checkpoints/<int:revision>/", checkpoints.OneCheckpoint.as_view(), name="checkpoint"),
    path(
        "runs/<uuid:id>/checkpoints/<int:revision>/diff/<int:other>/",
        checkpoints.CheckpointDifference.as_view(),
        name="checkpoint-diff",
    ),
    path("commitments/", commitments.Commitments.as_view(), name="commitments"),
    path("commitments/<uuid:id>/withdraw/", commitments.CommitmentWithdrawal.as_view(), name="commitment-withdraw"),
    path("runs/<uuid:id>/checkpoints/<int:revision>/fork/", lineage.CheckpointFork.as_view(), name="checkpoint-fork"),
    path(
        "runs/<uuid:id>/checkpoints/<int:revision>/fork/preview/",
        lineage.CheckpointForkPreview.as_view(),
        name="checkpoint-fork-preview",
    ),
    path("waits/", waits.Waits.as_view(), name="waits"),
    path("waits/<uuid:id>/", waits.OneWait.as_view(), name="wait"),
    path("waits/<uuid:id>/decide/", waits.WaitDecision.as_view(), name="wait-decide"),
    path("calls/", calls.Calls.as_view(), name="calls"),
    path("calls/<uuid:id>/", calls.OneCall.as_view(), name="call"),
    path("calls/<uuid:id>/reconcile/", calls.CallVerdict.as_view(), name="call-reconcile"),
    path("reports/<uuid:id>/", reports.ReportVersions.as_view(), name="report"),
    path("reports/<uuid:id>/versions/<int:version>/", reports.OneReportVersion.as_view(), name="report-version"),
    path("calls/<uuid:id>/repeat/", calls.CallRepeat.as_view(), name="call-repeat"),
    path("calls/<uuid:id>/contradict/", contradictions.CallContradiction.as_view(), name="call-contradict"),
    path("contradictions/", contradictions.Contradictions.as_view(), name="contradictions"),
    path(
        "contradictions/<uuid:id>/close/",
        contradictions.ContradictionClosing.as_view(),
        name="contradiction-close",
    ),
    path("workspaces/", memory.Workspaces.as_view(), name="workspaces"),
    path("workspaces/<uuid:id>/progress/", memory.WorkspaceProgressList.as_view(), name="workspace-progress"),
    path("memory/", memory.Memory.as_view(), name="memory"),
    path("obligations/", obligations.Obligations.as_view(), name="obligations"),
    path("obligations/<uuid:id>/release/", obligations.ObligationRelease.as_view(), name="obligation-release"),
    re_path("", Missing.as_view(), name="missing"),
]
