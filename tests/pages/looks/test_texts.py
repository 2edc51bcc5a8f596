"""Whatever stands in a field, each page shows it as text: the same elements as with a plain one, odd characters with their names."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.urls import reverse

from console.lists.cells import DANGEROUS, formula_safe
from console.lists.runs import RUNS
from console.pages.lists.page import LISTS
from console.pages.text import loud_characters
from tests.corpus import KEPT
from tests.pages.looks.conftest import Furnished
from tests.pages.looks.places import ANN, Place

# Columns whose text is chosen by people, models, tools or the outside world. What is left out is made by our own code (states,
# digests, keys, labels of workers) or has a form of its own that its service holds it to.
FREE = {
    "accounts.Tenant": ("name",),
    "accounts.SavedView": ("name",),
    "accounts.Endpoint": ("name", "shown", "created_by"),
    "accounts.Notice": ("error",),
    "runs.Thread": ("key",),
    "runs.Workspace": ("title",),
    "runs.Run": ("title", "hold_detail", "created_by", "end_reason"),
    "runs.RunInput": ("filename",),
    "runs.RunTransition": ("detail", "actor"),
    "runs.Bulk": ("reason", "requested_by"),
    "runs.BulkItem": ("said",),
    "runs.ScopeControl": ("reason", "requested_by", "aborted_by", "abort_reason", "lifted_by", "lift_reason"),
    "runs.ControlRequest": ("reason", "requested_by", "aborted_by", "abort_reason"),
    "runs.SweepFailure": ("error",),
    "runs.MemoryItem": ("subject",),
    "receipts.ToolCall": ("tool", "tool_version", "step_name", "author", "external_ref", "error"),
    "receipts.Proposal": ("tool", "refusal"),
    "receipts.Attempt": ("error", "authorised_by"),
    "receipts.ModelCall": ("model", "response_id"),
    "receipts.Reconciliation": ("evidence", "external_ref", "actor"),
    "receipts.Effect": ("kind", "target", "external_ref"),
    "receipts.SecondEffect": ("granted_by", "reason"),
    "receipts.Probe": ("asked_by", "how", "external_ref"),
    "receipts.FirstWord": ("evidence", "external_ref", "actor"),
    "receipts.Attachment": ("filename", "note", "added_by"),
    "receipts.Contradiction": ("evidence", "external_ref", "raised_by", "closing_reason", "closed_by"),
    "receipts.Report": ("slug",),
    "receipts.ReportVersion": ("title",),
    "receipts.Publication": ("external_ref",),
    "checkpoints.Intent": ("revised_by", "reason"),
    "checkpoints.Obligation": ("statement", "step_name", "released_by", "release_reason"),
    "checkpoints.Commitment": ("statement", "source_ref", "source_version", "withdrawn_by", "withdrawal_reason"),
    "checkpoints.SaveAttempt": ("path", "why"),
    "checkpoints.Lapse": ("step_name",),
    "approvals.PolicyDecision": ("rule",),
    "approvals.Wait": ("policy_rule", "required_group", "status_reason"),
    "approvals.Vote": ("actor", "voice", "reason", "withdrawal_reason"),
    "approvals.Decision": ("reason", "actor"),
    "approvals.Grant": ("condition", "reason", "owner", "revoked_by", "revocation_reason"),
    "approvals.Assignment": ("person", "assigned_by", "reason", "ended_by"),
    "approvals.Look": ("actor",),
    "approvals.Delegation": ("giver", "reason", "ended_by"),
    "approvals.PolicyVersion": ("summary", "saved_by"),
    "approvals.PolicyActivation": ("activated_by", "reason"),
}

LABELS = {"actor", "author", "giver", "owner", "person", "voice"}  # who: `person:` and a name


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, where its links lead to, and its text; pills left out."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.leads: list[str] = []
        self.loud: list[str] = []
        self.typed = 0
        self.pills: list[bool] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        pill = tag == "span" and (given.get("class") or "").split(" ")[0] == "inv"
        if tag == "span":
            self.pills.append(pill)
        if not pill:
            self.elements.append(f"{tag} {' '.join(sorted(given))}")
        self.leads += [
            value for name, value in attrs if name in {"href", "src", "action", "hx-get", "hx-post"} and value
        ]
        for name, value in attrs:
            if value and name != "value" and loud_characters(value):
                self.loud.append(f"{tag} {name}: {value[:60]!r}")
        self.typed += tag in {"textarea", "pre"}

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self.pills:
            self.pills.pop()
        self.typed -= tag in {"textarea", "pre"}

    def handle_data(self, data: str) -> None:
        if not self.typed and not any(self.pills) and loud_characters(data):
            self.loud.append(repr(data[:60]))


@contextmanager
def holding(text: str) -> Iterator[None]:
    """Every free column holds this text; all of it is taken back at the end."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SET LOCAL session_replication_role = replica"
            )  # past the triggers that keep what is written
            for label, names in FREE.items():
                cursor.execute(*_filled(apps.get_model(label), names, text))
        yield
        transaction.set_rollback(True)


def _filled(model: type[models.Model], names: tuple[str, ...], text: str) -> tuple[str, list[str]]:
    """Set columns to a text that fits them, where there is one at all; in a unique column each row gets its own."""
    table, sets, values = connection.ops.quote_name(model._meta.db_table), [], []
    for name in names:
        field = next(one for one in model._meta.concrete_fields if one.name == name)
        length = field.max_length or len(text)
        tail = 14 if _stands_alone(model, name) else 0
        mark = " || '#' || substr(ctid::text, 2, 12)" if tail else ""
        column = connection.ops.quote_name(str(field.column))
        sets.append(f"{column} = CASE WHEN {column} IS NULL OR {column} = '' THEN {column} ELSE %s{mark} END")
        label = "person:" if name in LABELS or name.endswith("_by") else ""
        values.append(f"{label}{text}"[: length - tail])
    return f"UPDATE {table} SET {', '.join(sets)}", values


def _stands_alone(model: type[models.Model], name: str) -> bool:
    together = [
        field for one in model._meta.constraints if isinstance(one, models.UniqueConstraint) for field in one.fields
    ]
    return name in together or any(name in fields for fields in model._meta.unique_together)


def seen(furnished: Furnished, places: list[Place]) -> dict[str, Skeleton]:
    pages = {}
    for place in places:
        answer = furnished.client(place.who).get(place.path)
        assert answer.status_code == place.status, (place.name, answer.status_code)
        pages[place.name] = Skeleton(answer.content.decode())
    return pages


FEW = ("closing",)  # which texts the normal suite looks at, on a page of each route
named = pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(one, marks=pytest.mark.matrix) for one in KEPT if one not in FEW)]
)


@pytest.fixture(scope="module")
def plain(furnished: Furnished) -> dict[str, set[str]]:
    """The elements of each route with a text that does nothing, on any page of it: what is drawn of a run moves with the clock."""
    elements: dict[str, set[str]] = defaultdict(set)
    with holding("A plain text"):
        pages = seen(furnished, furnished.places)
    for place in furnished.places:
        elements[place.route] |= set(pages[place.name].elements)
    return elements


@named
def test_a_text_adds_no_element_leads_nowhere_and_shows_each_odd_character(
    furnished: Furnished, plain: dict[str, set[str]], name: str
) -> None:
    routes = {one.route: one for one in reversed(furnished.places)}
    places = list(routes.values()) if name in FEW else furnished.places
    with holding(KEPT[name]):
        pages = seen(furnished, places)
    wrong = {}
    for place in places:
        page = pages[place.name]
        added = sorted(set(page.elements) - plain[place.route])
        leads = [one for one in page.leads if not one.startswith(("/", "#", "?", "http://127.0.0.1", "https://"))]
        if added or leads or page.loud:
            wrong[place.name] = (added, leads, page.loud[:3])
    assert wrong == {}


@pytest.mark.parametrize("name", ["formula", "formula after a tab", "lines", "decomposed", "bidi"])
def test_a_file_of_a_list_holds_the_text_whole_and_no_formula(furnished: Furnished, name: str) -> None:
    text = KEPT[name]
    with holding(text):
        lines, rows = (taken(furnished, f"/runs/?format={format}") for format in ("csv", "json"))
    titles = {row["title"] for row in json.loads(rows)["rows"]}
    assert titles == {text[:200]}
    cells = [cell for line in csv.reader(io.StringIO(lines, newline="")) for cell in line]
    assert {text[:200], f"'{text[:200]}"} & set(cells)
    assert [cell for cell in cells if cell.startswith(DANGEROUS)] == []


FILES = {**LISTS, RUNS.key: RUNS}


@named
def test_the_files_of_every_list_hold_each_text_as_it_is_stored(furnished: Furnished, name: str) -> None:
    """Whole and character for character, in JSON; in CSV so too, behind an apostrophe where it would be a formula."""
    text = KEPT[name]
    found = 0
    with holding(text):
        stored = _held(text)
        for listing in FILES.values():
            every = "&".join(f"columns={column.key}" for column in listing.columns)
            path = f"{reverse(listing.url_name)}?{every}&format="
            rows = json.loads(taken(furnished, f"{path}json"))["rows"]
            cells = [cell for row in rows for cell in row.values() if cell and text[:8] in cell]
            cut = [cell for cell in cells if not any(whole in cell for whole in stored)]
            assert not cut, (listing.key, cut[:2])
            lines = csv.reader(io.StringIO(taken(furnished, f"{path}csv"), newline=""))
            begins = text[:8].replace("'", "")  # an apostrophe may stand in the middle of it
            in_lines = {cell for line in lines for cell in line if begins in cell.replace("'", "")}
            assert in_lines == {formula_safe(cell) for cell in cells}, listing.key
            assert not [cell for cell in in_lines if cell.startswith(DANGEROUS)]
            found += len(cells)
    assert found > 20


def _held(text: str) -> set[str]:
    """What the free columns hold of it, of a person without the mark that says so."""
    stored = set()
    for label, names in FREE.items():
        for row in apps.get_model(label).objects.values_list(*names):
            stored |= {value.removeprefix("person:") for value in row if value and text[:8] in value}
    return stored


def taken(furnished: Furnished, path: str) -> str:
    return furnished.client(ANN).get(path).getvalue().decode()
