"""The tools: what they fill in, what they refuse, and what an answer from outside proves."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from pydantic import ValidationError

from receipts.states import EffectClass
from runs.canonical import canonical
from runtime.contracts import ArgumentsRefused, ToolFailed, ToolRetryable, ToolUnknown
from runtime.tools.finish import FINISH
from runtime.tools.registry import TOOLS, definition_hash, tool_spec
from tests.unit.agent_runs import InMemoryRun
from tests.unit.outside_world import OutsideWorld, outside_world
from tests.waiting import wait_until

PUBLISH = {"channel": "wiki", "report_version": 2, "title": "LARCH / MAPLE overlap", "summary": "They share a holding."}
DRAFT = {"version": 1, "title": "LARCH / MAPLE overlap", "summary": "They share a holding."}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[OutsideWorld]:
    with outside_world(tmp_path) as running:
        yield running


# ── reading, comparing, the first draft ──────────────────────────────────────


def test_a_reading_is_json_with_numbers_as_text() -> None:
    value = InMemoryRun().call("read_disclosure", input="a").value
    canonical(value)
    assert (value["fund"], value["as_of"], value["total_weight"]) == ("LARCH", "2026-06-30", "100.0")
    assert value["holdings"][0] == {
        "ticker": "ALGR",
        "name": "ALDER GROVE ROBOTICS INC",
        "weight": "60.1",
        "lines": [2],
    }
    assert value["without_ticker"] == [{"line": 4, "name": "US DOLLAR", "weight": "0.4"}]


def test_a_reading_of_a_bad_file_fails_with_its_line() -> None:
    run = InMemoryRun(inputs={"a": b"ticker,name,weight (%)\nAAA,ALPHA,x\n"})
    with pytest.raises(ToolFailed, match="Disclosure A, line 2"):
        run.call("read_disclosure", input="a")


def test_the_overlap_uses_the_stored_readings() -> None:
    run = InMemoryRun()
    with pytest.raises(ArgumentsRefused, match="Disclosure A has not been read"):
        run.call("compute_overlap")
    run.call("read_disclosure", input="a")
    run.call("read_disclosure", input="b")
    value = run.call("compute_overlap").value
    canonical(value)
    assert (value["overlap"], value["shared_count"]) == ("55.02", 1)
    assert (value["a"]["only_count"], value["b"]["only_weight"]) == (1, "44.0")


def test_every_number_of_the_draft_links_to_the_call_it_came_from() -> None:
    run = InMemoryRun().prepare()
    args = run.complete("send_answer_part", **DRAFT)
    report = TOOLS["send_answer_part"].run(run.context(), args).report
    assert report is not None
    by_step = {result.step_name: result.call_id for result in run.results}
    assert f"[55.02 %](call:{by_step['compute_overlap/a-b']})" in report.body
    assert f"[0.98 %](call:{by_step['read_disclosure/b']})" in report.body
    assert set(report.source_calls) == {
        by_step[step] for step in ("read_disclosure/a", "read_disclosure/b", "compute_overlap/a-b")
    }
    assert "Not an investment conclusion." in report.body


def test_names_from_files_and_words_of_the_model_stay_text() -> None:
    run = InMemoryRun().prepare()
    summary = "See [this](call:x), **bold** <b>tag</b>\n\n# heading"
    args = run.complete("send_answer_part", **(DRAFT | {"summary": summary}))
    report = TOOLS["send_answer_part"].run(run.context(), args).report
    assert report is not None
    html = MarkdownIt("commonmark").enable("table").render(report.body)
    assert "LONGACRE [CLOUD](https://evil.example) | X" in html
    assert "See [this](call:x), **bold** &lt;b&gt;tag&lt;/b&gt; # heading" in html
    assert 'evil.example"' not in html


@pytest.mark.parametrize("summary", ["They share 65 %.", "Half: ½", "Room ４", "x²"])
def test_the_model_writes_no_numbers(summary: str) -> None:
    with pytest.raises(ValidationError, match="Numbers come from the tools"):
        InMemoryRun().prepare().complete("send_answer_part", **(DRAFT | {"summary": summary}))


def test_a_title_holds_only_numbers_of_the_funds_and_days() -> None:
    run = InMemoryRun().prepare()
    run.complete("send_answer_part", **(DRAFT | {"title": "LARCH / MAPLE, 2026-06-30"}))
    with pytest.raises(ArgumentsRefused, match="99"):
        run.complete("send_answer_part", **(DRAFT | {"title": "LARCH / MAPLE: 99 %"}))


@pytest.mark.parametrize(("tool", "arguments"), [("send_answer_part", DRAFT), ("publish_report", PUBLISH)])
def test_the_model_writes_no_body_and_completing_twice_is_the_same(tool: str, arguments: dict[str, object]) -> None:
    run = InMemoryRun().prepare()
    completed = run.complete(tool, **arguments)
    assert run.complete(tool, **completed.model_dump()) == completed
    with pytest.raises(ArgumentsRefused, match="body is filled in"):
        run.complete(tool, **(arguments | {"body": "my own"}))


def test_what_does_not_fit_the_schema_is_refused() -> None:
    run = InMemoryRun().prepare()
    for wrong in ({"channel": "mail"}, {"report_version": 3}, {"report_version": "2"}, {"extra": 1}, {"title": ""}):
        with pytest.raises(ValidationError):
            run.complete("publish_report", **(PUBLISH | wrong))


# ── the reference sheet ──────────────────────────────────────────────────────


def test_the_sheet_is_asked_for_the_lines_without_a_ticker_heaviest_first(world: OutsideWorld) -> None:
    run = InMemoryRun(world.url).prepare()
    assert run.complete("fetch_reference").model_dump() == {"lines": ["BAYHEAD TRADE FINANCE NOTE B", "US DOLLAR"]}
    answers = run.call("fetch_reference").value["answers"]
    assert [answer["covered"] for answer in answers] == [False, True]
    assert world.counts()["reference"] == {"total": 1, "keys": {"k1": 1}}


def test_the_sheet_is_not_asked_where_every_line_has_a_ticker() -> None:
    run = InMemoryRun(inputs=dict.fromkeys("ab", b"ticker,name,weight (%)\nAAA,ALPHA,100\n"))
    run.call("read_disclosure", input="a")
    run.call("read_disclosure", input="b")
    with pytest.raises(ArgumentsRefused, match="Every line has a ticker"):
        run.complete("fetch_reference")


def test_version_2_says_what_the_sheet_covers_and_what_not(world: OutsideWorld) -> None:
    run = InMemoryRun(world.url).prepare()
    run.call("fetch_reference")
    tool = TOOLS["publish_report"]
    args = run.complete("publish_report", **PUBLISH)
    draft = tool.draft(args, run.results)
    assert draft is not None
    sheet = run.results[-1].call_id
    assert f"[Currency: Money held in this currency.](call:{sheet})" in draft.body
    assert f"[Not covered by the sheet.](call:{sheet})" in draft.body
    assert sheet in draft.source_calls


# ── publication ──────────────────────────────────────────────────────────────


def test_what_is_posted_is_what_was_approved_and_holds_no_ids_of_the_run(world: OutsideWorld) -> None:
    first, second = InMemoryRun(world.url).prepare(), InMemoryRun(world.url).prepare()
    args = first.complete("publish_report", **PUBLISH)
    assert args == second.complete("publish_report", **PUBLISH)
    outcome = TOOLS["publish_report"].run(first.context(), args)
    assert outcome.external_ref == "post-1"
    assert outcome.target == "wiki:larch-maple-overlap"
    assert outcome.value["executions"] == 1
    assert "55.02 %" in args.model_dump()["body"]
    assert not any(str(result.call_id) in args.model_dump()["body"] for result in first.results)


def test_nothing_is_published_before_the_first_draft() -> None:
    run = InMemoryRun()
    run.call("read_disclosure", input="a")
    run.call("read_disclosure", input="b")
    run.call("compute_overlap")
    with pytest.raises(ArgumentsRefused, match="no first draft"):
        run.complete("publish_report", **PUBLISH)


@pytest.mark.parametrize(
    ("control", "error", "executions"),
    [
        ({"mode": "drop"}, ToolUnknown, 1),
        ({"mode": "drop", "execute": "never"}, ToolUnknown, 0),
        ({"mode": "hang", "hang_seconds": 600}, ToolUnknown, 1),
        ({"mode": "refuse"}, ToolFailed, 0),
        ({"mode": "busy"}, ToolRetryable, 0),
        ({"mode": "gateway"}, ToolUnknown, 1),
        ({"mode": "gateway", "execute": False}, ToolUnknown, 0),
    ],
)
def test_what_an_answer_proves(
    world: OutsideWorld, control: dict[str, object], error: type[Exception], executions: int
) -> None:
    run = InMemoryRun(world.url).prepare()
    args = run.complete("publish_report", **PUBLISH)
    world.control(**control)
    with pytest.raises(error):
        TOOLS["publish_report"].run(run.context(timeout_seconds=0.5), args)
    assert world.executions("k1") == executions


def test_a_post_that_was_executed_twice_says_so(world: OutsideWorld) -> None:
    run = InMemoryRun(world.url).prepare()
    world.control(mode="twice")
    assert run.call("publish_report", **PUBLISH).value["executions"] == 2


def test_where_no_connection_opens_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    run = InMemoryRun(address).prepare()
    with pytest.raises(ToolRetryable, match="Nothing was sent"):
        run.call("publish_report", **PUBLISH)


@pytest.mark.parametrize("address", ["", "nonsense", "ftp://127.0.0.1"])
def test_without_an_address_nothing_is_sent(address: str) -> None:
    with pytest.raises(ToolFailed, match="Nothing was sent"):
        InMemoryRun(address).prepare().call("publish_report", **PUBLISH)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that reads a request and answers with the same bytes, whatever it was asked."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            received = b""
            while b"\r\n\r\n" not in received:
                received += self.request.recv(65536)
            self.request.sendall(answer)

    with serving(Handler) as address:
        yield address


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    """A server on a free port; its address."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def http(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("answer", "posting", "reading"),
    [
        (http("200 OK", b"not json"), ToolUnknown, ToolUnknown),
        (http("200 OK", b"[]"), ToolUnknown, ToolUnknown),
        (http("200 OK", b"{}"), ToolUnknown, ToolUnknown),
        (http("200 OK", b'{"id": "", "page": "x", "executions": 1}'), ToolUnknown, ToolUnknown),
        (http("200 OK", b'{"answers": [{"line": "other", "covered": true}]}'), ToolUnknown, ToolUnknown),
        (http("200 OK", b"x" * (1024 * 1024 + 1)), ToolUnknown, ToolUnknown),
        (http("302 Found", b""), ToolUnknown, ToolUnknown),
        (http("500 Oops", b""), ToolUnknown, ToolRetryable),
        (http("502 Bad Gateway", b""), ToolUnknown, ToolRetryable),
        (http("429 Slow Down", b""), ToolRetryable, ToolRetryable),
        (http("404 Not Found", b"\xff\xfe"), ToolFailed, ToolFailed),
        (b"garbage\r\n\r\n", ToolUnknown, ToolUnknown),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", ToolUnknown, ToolUnknown),
        (b"", ToolUnknown, ToolUnknown),
    ],
)
def test_strange_answers(answer: bytes, posting: type[Exception], reading: type[Exception]) -> None:
    with answering(answer) as address:
        run = InMemoryRun(address).prepare()
        for tool, arguments, error in (("publish_report", PUBLISH, posting), ("fetch_reference", {}, reading)):
            with pytest.raises(error):
                TOOLS[tool].run(run.context(timeout_seconds=2), run.complete(tool, **arguments))


def test_an_answer_that_comes_in_drops_is_given_up_in_time() -> None:
    """A timeout of the client starts anew with every byte, and in the head of an answer nobody looked at the clock."""
    given_up = threading.Event()

    class Dripping(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nX-Drop: ")
            with suppress(OSError):
                while not given_up.wait(0.05):
                    self.request.sendall(b".")

    with serving(Dripping) as address:
        run = InMemoryRun(address).prepare()
        with pytest.raises(ToolUnknown, match=r"no complete answer within 0\.5 s"):
            TOOLS["publish_report"].run(run.context(timeout_seconds=0.5), run.complete("publish_report", **PUBLISH))
        given_up.set()


def test_an_answer_that_is_there_whole_is_read_however_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was frozen after it had sent knows what happened when it wakes up (T38)."""
    frozen_until = time.monotonic() + 0.6

    def frozen(point: str) -> None:
        if point == "after_send":
            wait_until(lambda: time.monotonic() > frozen_until, "the process is let go")

    monkeypatch.setattr("runtime.tools.http.reach", frozen)
    with answering(http("200 OK", b'{"id": "post-1", "page": "x", "executions": 1}')) as address:
        run = InMemoryRun(address).prepare()
        args = run.complete("publish_report", **PUBLISH)
        outcome = TOOLS["publish_report"].run(run.context(timeout_seconds=0.3), args)
    assert outcome.external_ref == "post-1"


# ── looking a key up ─────────────────────────────────────────────────────────


def test_a_probe_tells_executed_not_executed_and_cannot_tell(world: OutsideWorld) -> None:
    run = InMemoryRun(world.url).prepare()
    tool = TOOLS["publish_report_queryable"]
    args = run.complete(tool.key, **PUBLISH)
    assert tool.probe(run.context(), args) is None
    world.control(lookup=True)
    assert tool.probe(run.context(), args) is False
    world.control(mode="drop")
    with pytest.raises(ToolUnknown):
        tool.run(run.context(), args)
    found = tool.probe(run.context(), args)
    assert not isinstance(found, bool | None)
    assert (found.external_ref, found.value["executions"]) == ("post-1", 1)


def test_a_probe_that_reaches_nobody_cannot_tell() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    run = InMemoryRun(address).prepare()
    tool = TOOLS["publish_report_queryable"]
    assert tool.probe(run.context(), run.complete(tool.key, **PUBLISH)) is None


# ── the registry ─────────────────────────────────────────────────────────────


def test_effect_classes_and_labels() -> None:
    run = InMemoryRun().prepare()
    labels: dict[str, tuple[str, EffectClass, dict[str, Any]]] = {
        "read_disclosure": ("a", EffectClass.READ_ONLY, {"input": "a"}),
        "compute_overlap": ("a-b", EffectClass.READ_ONLY, {}),
        "send_answer_part": ("v1", EffectClass.QUERYABLE, DRAFT),
        "fetch_reference": ("sheet", EffectClass.READ_ONLY, {}),
        "publish_report": ("overlap-v2", EffectClass.NON_IDEMPOTENT, PUBLISH),
        "publish_report_idempotent": ("overlap-v2", EffectClass.IDEMPOTENT, PUBLISH),
        "publish_report_queryable": ("overlap-v2", EffectClass.QUERYABLE, PUBLISH),
        "remember": ("item", EffectClass.QUERYABLE, {"subject": "a", "text": "b"}),
        "recall": ("items", EffectClass.READ_ONLY, {"subject": "a"}),
        "ask_person": ("question", EffectClass.READ_ONLY, {"question": "Which of the two?"}),
    }
    assert labels.keys() == TOOLS.keys()
    for key, (label, effect_class, arguments) in labels.items():
        tool = TOOLS[key]
        assert (tool.step_label(run.complete(key, **arguments)), tool.effect_class) == (label, effect_class)


def test_the_model_does_not_see_what_is_filled_in_for_it() -> None:
    assert set(tool_spec(TOOLS["publish_report"]).schema["properties"]) == {
        "channel",
        "report_version",
        "title",
        "summary",
    }
    assert tool_spec(TOOLS["fetch_reference"]).schema["properties"] == {}
    assert FINISH.schema["required"] == ["summary"]


def test_the_definition_hash_pins_every_part_of_a_tool() -> None:
    hashes = {definition_hash(tool) for tool in TOOLS.values()}
    assert len(hashes) == len(TOOLS)

    class Slower(type(TOOLS["publish_report"])):  # type: ignore[misc]
        timeout_seconds = 16.0

    assert definition_hash(Slower()) not in hashes
