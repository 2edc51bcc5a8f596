"""The stop page: counted before the button, three stages after it, and the truth about what was on its way."""

from pytest_django import DjangoAssertNumQueries

from runs.models import ControlRequest
from runs.states import RunStatus
from tests.pages.conftest import Member
from tests.pages.driven import HOSTILE, Driven, Outside, assert_inert, in_flight, person, told, waiting, words
from tests.waiting import wait_until

QUERIES = 22


def url(run: Driven) -> str:
    return f"/runs/{run.id}/stop/"


def ready(**how: str) -> Driven:
    return waiting(person("ann.moreau"), **how) if how else told("waiting")


def test_what_a_stop_means_is_counted_before_the_button(ann: Member) -> None:
    run = ready()
    html = ann.get(url(run))
    said = words(html)
    assert "4 things stay, 0 may still land, 3 will not start." in said
    assert said.index("will not start") < said.index("Stop this run?")
    assert "Report v1 console, published" in said and "5 calls with a result" in said
    assert "publish_report/overlap-v2 awaiting approval, never sent" in said
    assert "The promise “Publish the report with the missing material on the wiki.” stays open" in said
    assert "cannot be withdrawn" in said


def test_a_run_without_a_worker_is_settled_at_once(ann: Member) -> None:
    run = ready()
    answer = ann.post(url(run), reason="The wrong pair of files.")
    assert (answer.status, answer.location) == (302, url(run))
    assert run.run.status == RunStatus.CANCELLED
    html = ann.get(url(run))
    said = words(html)
    assert "Stopped:" in said and "by ann.moreau" in said and "The wrong pair of files." in said
    assert "No worker held the run." in said and "The run is closed as CANCELLED." in said
    assert "publish_report/overlap-v2 cancelled with no attempt" in said
    assert 'id="stop-form"' not in html


def test_a_call_on_its_way_may_still_land_and_then_says_what_came_of_it(ann: Member, outside: Outside) -> None:
    run = ready()
    with in_flight(run, outside) as worker:
        said = words(ann.get(url(run)))
        assert "1 may still land" in said and "Sent. Stopping cannot call it back." in said
        assert "Then one of three" in said and "Time is up" in said
        assert ann.post(url(run), reason="Wrong title").status == 302
        wait_until(lambda: ControlRequest.objects.get(run_id=run.id).status == "ADOPTED", "the worker adopts the stop")
        said = words(ann.get(url(run)))
        assert "The stop is adopted; nothing new starts. What is on its way may still land." in said
        assert "It waits for what is on its way only, and starts nothing." in said
        assert "at the latest" in said and "“Wrong title.” It cannot be withdrawn." in said
        assert "publish_report/overlap-v2, attempt 1" in said
        outside.tell(mode="ok")
        worker.join()
    said = words(ann.get(url(run)))
    assert "Stopped:" in said and "The run is closed as CANCELLED." in said
    assert "It answered: done. Stored as happened." in said
    assert "Report v2 wiki, published" in said


def test_an_unknown_call_outlives_the_run(ann: Member, outside: Outside) -> None:
    run = told("lost")
    assert "It stays in the inbox for a verdict, although the run is over." in words(ann.get(url(run)))
    ann.post(url(run), reason="Enough.")
    said = words(ann.get(url(run)))
    assert "It may have happened already." in said and "1 was on its way" in said
    assert run.publishing.status == "UNCERTAIN"


def test_asking_twice_is_one_stop(ann: Member, ben: Member, outside: Outside) -> None:
    run = ready()
    with in_flight(run, outside):
        assert ann.post(url(run), reason="First.").status == 302
        assert ben.post(url(run), reason="Second.").status == 302
        assert "It stood already: ann.moreau asked for it at" in words(ben.get(url(run)))
        assert "It stood already" not in words(ann.get(url(run)))
    assert ControlRequest.objects.filter(run_id=run.id).count() == 1
    assert "First." in words(ann.get(url(run))) and "Second." not in words(ann.get(url(run)))


def test_a_stop_needs_a_reason_and_keeps_what_was_typed(ann: Member) -> None:
    run = ready()
    answer = ann.post(url(run), reason="   ")
    assert answer.status == 400
    assert "reason: it is empty" in words(answer.html)
    long = "x" * 5000
    answer = ann.post(url(run), reason=long)
    assert answer.status == 400 and f'value="{long}"' in answer.html
    assert run.run.status == RunStatus.WAITING


def test_a_run_that_has_ended_is_not_stopped(ann: Member) -> None:
    run = told("published")
    html = ann.get(url(run))
    assert "The run had ended before anybody stopped it." in words(html)
    assert 'id="stop-form"' not in html
    answer = ann.post(url(run), reason="Too late.")
    html = answer.html
    assert answer.status == 409 and "RUN_ENDED" in html and 'value="Too late."' in html
    assert 'type="button" aria-disabled="true"' in html


def test_a_viewer_sees_why_the_button_is_off(reader: Member) -> None:
    run = ready()
    html = reader.get(url(run))
    assert "Stopping needs the role operator" in words(html)
    assert 'type="button" aria-disabled="true"' in html
    assert reader.post(url(run), reason="Me too.").status == 403


def test_what_people_wrote_is_inert(ann: Member) -> None:
    run = ready(title=HOSTILE)
    assert_inert(ann.get(url(run)))
    ann.post(url(run), reason=HOSTILE)
    assert_inert(ann.get(url(run)))


def test_a_page_costs_a_bounded_number_of_queries(
    ann: Member, outside: Outside, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = ready()
    with django_assert_max_num_queries(QUERIES):
        ann.get(url(run))
    ann.post(url(run), reason="Enough.")
    with django_assert_max_num_queries(QUERIES):
        panel = ann.get(url(run), panel="stop-live")
    assert panel.lstrip().startswith('<div id="stop-live"') and "<form" not in panel


def test_nobody_else_sees_it(outsider: Member, ann: Member) -> None:
    run = ready()
    assert outsider.client.get(url(run)).status_code == 404
    assert outsider.post(url(run), reason="Mine now.").status == 404
    assert run.run.status == RunStatus.WAITING


def test_what_is_on_its_way_can_be_left_unawaited_and_that_calls_nothing_back(ann: Member, outside: Outside) -> None:
    run = ready()
    assert 'id="abort-form"' not in ann.get(url(run))
    with in_flight(run, outside):
        html = ann.get(url(run))
        assert "Not wait for what is on its way?" in words(html) and "It calls nothing back" in words(html)
        refused = ann.post(url(run), how="abort", reason=" ")
        assert refused.status == 400 and 'id="abort-form"' in refused.html
        assert ann.post(url(run), how="abort", reason="The title is wrong.").status == 302
        assert (run.run.status, run.publishing.status) == (RunStatus.CANCELLED, "UNCERTAIN")
        said = words(ann.get(url(run)))
        assert "Nobody waited for what was on its way: it may have happened, and wants a verdict." in said
        assert "ann.moreau had nobody wait for what was on its way: “The title is wrong.”" in said
        assert 'id="abort-form"' not in ann.get(url(run))
