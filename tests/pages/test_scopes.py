"""The pages of a stop or a pause of more than one run: counted before the button, progress after it, lifted with a reason."""

from pytest_django import DjangoAssertNumQueries

from runs.models import ControlRequest, ScopeControl
from runs.states import RunStatus
from tests.pages.conftest import Member
from tests.pages.driven import HOSTILE, Driven, Outside, assert_inert, in_flight, person, waiting, words

NEW = "/scopes/new/"
QUERIES = 26


def ready(**how: str) -> Driven:
    return waiting(person("ann.moreau"), **how)


def url() -> str:
    return f"/scopes/{ScopeControl.objects.latest('accepted_at').id}/"


def press(ann: Member, run: Driven, act: str = "stop", reason: str = "The source is wrong.") -> None:
    answer = ann.post(NEW, scope="THREAD", of=str(run.run.thread_id), act=act, reason=reason)
    assert (answer.status, answer.location) == (302, url()), answer.html


def test_what_it_would_meet_is_counted_before_the_button(ann: Member) -> None:
    run = ready()
    said = words(ann.get(f"{NEW}?scope=THREAD&of={run.run.thread_id}"))
    assert "1 live run, 0 on the wire, 1 wait for a person." in said
    assert "waits for a person until" in said and "Nothing is on its way." in said
    assert said.index("It calls nothing back") < said.index("Do it to the thread")
    assert "Everything of this tenant" in said and "Agent fund_comparison" in said


def test_a_thread_is_stopped_and_every_stage_is_shown_until_it_is_lifted(ann: Member) -> None:
    run = ready()
    press(ann, run)
    assert run.run.status == RunStatus.CANCELLED
    said = words(ann.get(url()))
    assert "Every run is settled. No run starts here until it is lifted." in said
    assert "1 run reached" in said and "1 closed" in said and "The source is wrong." in said
    assert "1 stands now" in words(ann.get("/scopes/"))
    listed = f'href="{url()}"'
    assert ann.get("/scopes/?status=STANDING&columns=name").count(listed) == 2  # what stands, and the list
    assert ann.get("/scopes/?status=LIFTED").count(listed) == 1
    assert ann.post(url(), reason=" ").status == 400
    assert ann.post(url(), reason="Mended.").location == url()
    said = words(ann.get(url()))
    assert "Lifted: Stop of the thread" in said and "Mended." in said
    assert 'id="lift-form"' not in ann.get(url())
    assert "ALREADY_LIFTED" in ann.post(url(), reason="Again.").html


def test_what_is_on_its_way_is_waited_for_until_somebody_says_not_to(ann: Member, outside: Outside) -> None:
    run = ready()
    with in_flight(run, outside):
        said = words(ann.get(f"{NEW}?scope=THREAD&of={run.run.thread_id}"))
        assert "1 may still land" in said and "time is up" in said
        press(ann, run)
        said = words(ann.get(url()))
        assert "1 waits for what is on its way" in said and "Not settled yet" in said and "Wait for nothing?" in said
        assert ann.post(url(), how="abort", reason="It must end.").status == 302
        assert (run.run.status, run.publishing.status) == (RunStatus.CANCELLED, "UNCERTAIN")
        said = words(ann.get(url()))
        assert "1 call of unknown outcome wants a verdict." in said
        assert "Waits for nothing since" in said and "It must end." in said
        assert 'id="abort-form"' not in ann.get(url())


def test_a_paused_thread_holds_its_run_and_lets_it_go(ann: Member) -> None:
    run = ready()
    press(ann, run, act="pause")
    assert (run.run.status, run.run.hold_reason) == (RunStatus.HELD, "PAUSED")
    assert "1 held" in words(ann.get(url()))
    retry = words(ann.get(f"/runs/{run.id}/retry/"))
    assert "was paused by ann.moreau" in retry and "The source is wrong." in retry
    ann.post(url(), reason="Looked.")
    assert run.run.status == RunStatus.WAITING


def test_who_asks_a_moment_after_somebody_else_is_told_whose_act_stands(ann: Member, ben: Member) -> None:
    run = ready()
    for act in ("pause", "abort"):
        press(ann, run, act, reason="First.")
        assert "It stood already" not in words(ann.get(url()))
        press(ben, run, act, reason="Second.")
        said = words(ben.get(url()))
        assert "It stood already: ann.moreau asked for it at" in said and "Second." not in said


def test_nothing_is_chosen_for_the_person_and_what_was_typed_is_kept(ann: Member) -> None:
    run = ready()
    where = {"scope": "THREAD", "of": str(run.run.thread_id)}
    answer = ann.post(NEW, **where, reason="Typed already.")
    assert answer.status == 400 and 'value="Typed already."' in answer.html and "choose one" in words(answer.html)
    answer = ann.post(NEW, **where, act="stop", reason=" ")
    assert answer.status == 400 and 'value="stop" checked' in answer.html
    assert not ControlRequest.objects.filter(run_id=run.id).exists()


def test_a_scope_that_is_not_there_stops_nothing(ann: Member) -> None:
    before = ScopeControl.objects.count()
    for scope, of in (("nothing", ""), ("THREAD", "nothing"), ("AGENT", "nobody"), ("", "")):
        assert ann.post(NEW, scope=scope, of=of, act="stop", reason="No.").status == 404
    assert ScopeControl.objects.count() == before


def test_a_viewer_sees_why_the_buttons_are_off(ann: Member, reader: Member) -> None:
    run = ready()
    where = f"{NEW}?scope=THREAD&of={run.run.thread_id}"
    assert "Stopping needs the role operator" in words(reader.get(where))
    assert reader.post(NEW, scope="THREAD", of=str(run.run.thread_id), act="stop", reason="Me too.").status == 403
    press(ann, run)
    assert "Lifting needs the role operator" in words(reader.get(url()))
    assert reader.post(url(), reason="Me too.").status == 403


def test_the_stop_page_of_a_run_leads_to_its_scopes(ann: Member) -> None:
    run = ready()
    assert f"{NEW}?scope=THREAD&amp;of={run.run.thread_id}" in ann.get(f"/runs/{run.id}/stop/")


def test_what_people_wrote_is_inert(ann: Member) -> None:
    run = ready(title=HOSTILE)
    assert_inert(ann.get(f"{NEW}?scope=THREAD&of={run.run.thread_id}"))
    press(ann, run, reason=HOSTILE)
    for path in (url(), "/scopes/"):
        assert_inert(ann.get(path))


def test_the_pages_cost_a_bounded_number_of_queries(
    ann: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = ready()
    with django_assert_max_num_queries(QUERIES):
        ann.get(f"{NEW}?scope=AGENT&of=fund_comparison")
    press(ann, run)
    with django_assert_max_num_queries(QUERIES):
        panel = ann.get(url(), panel="scope-live")
    assert panel.lstrip().startswith('<div id="scope-live"') and "<form" not in panel


def test_nobody_else_sees_it(outsider: Member, ann: Member) -> None:
    run = ready()
    press(ann, run)
    assert outsider.client.get(url()).status_code == 404
    assert outsider.post(url(), reason="Mine.").status == 404
    assert run.run.title not in outsider.get("/scopes/")
    assert outsider.client.get(f"{NEW}?scope=THREAD&of={run.run.thread_id}").status_code == 404
