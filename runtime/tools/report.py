"""The report of a comparison as Markdown, from stored results only.

Every number comes from a tool and carries its receipt: in the console's report as a link to the call; in what is sent
to the wiki it is plain text, and the steps are listed at the end. The model's words stand apart, marked as its own.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from runtime.contracts import ArgumentsRefused, PriorResult
from runtime.tools import stored

Cite = Callable[[object, PriorResult], str]

SHARED_ROWS = 50
ALONE_ROWS = 10
LINE_ROWS = 50
NOTES = 20
CALL_LINK = re.compile(r"\]\(call:([0-9a-f-]{36})\)")
SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&=])")


def linked(text: object, source: PriorResult) -> str:
    """A text that links to the receipt it came from."""
    return f"[{escape(str(text))}](call:{source.call_id})"


def unlinked(text: object, source: PriorResult) -> str:
    """The same text for readers outside, who have no receipts. It holds no ids of this run (T07)."""
    return escape(str(text))


def escape(text: str) -> str:
    """Text of a file, a model or a remote, so that Markdown shows it as it is, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def source_calls(body: str) -> tuple[UUID, ...]:
    """The calls that a report links to, in order, each once."""
    return tuple(UUID(found) for found in dict.fromkeys(CALL_LINK.findall(body)))


def labels(a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
    """What to call two disclosures, each given as (fund, day): by fund, and by day too if the fund is the same."""
    if a[0] != b[0]:
        return a[0] or "A", b[0] or "B"
    if a[0] and a[1] != b[1]:
        return f"{a[0]} {a[1] or 'A'}", f"{b[0]} {b[1] or 'B'}"
    return f"{a[0]} A".strip(), f"{b[0]} B".strip()


def title(a: tuple[str, str], b: tuple[str, str]) -> str:
    """A title for comparing two disclosures, each given as (fund, day), e.g. `ARKK / ARKW overlap, 2021-09-08`."""
    day = f", {a[1]}" if a[1] and a[1] == b[1] else ""
    return f"{' / '.join(labels(a, b))} overlap{day}"


def refuse_own_numbers(text: str) -> str:
    """The model's words may hold no digit of any script: numbers come from the tools. Raises ValueError."""
    found = next((char for char in text if unicodedata.category(char).startswith("N")), None)
    if found:
        raise ValueError(f'may not contain digits ("{found}"). Numbers come from the tools; leave them out')
    return text


def check_title(text: str, results: Sequence[PriorResult]) -> None:
    """A title may hold only such numbers as stand in the funds' names and days. Raises ArgumentsRefused."""
    known: set[str] = set()
    for name in ("a", "b"):
        value = stored.disclosure(results, name).value
        known.update(re.findall(r"\d+", f"{value['fund']} {value['as_of']}"))
    for found in re.findall(r"\d+", text):
        if found not in known:
            raise ArgumentsRefused(f"title holds the number {found}, which is in no fund's name or day. Leave it out.")


def body(results: Sequence[PriorResult], summary: str, *, cite: Cite, reference: bool) -> str:
    """The whole report. With `reference` it says what the reference sheet answered for the lines without a ticker.

    Deterministic in the stored results. Raises ArgumentsRefused if a result it needs is missing.
    """
    a, b = stored.disclosure(results, "a"), stored.disclosure(results, "b")
    shared = stored.overlap(results)
    sheet = stored.newest(results, "fetch_reference") if reference else None
    names = labels(*((side.value["fund"], side.value["as_of"]) for side in (a, b)))
    parts = [
        *_overlap(shared, cite),
        *_disclosures(names, (a, b), shared, cite),
        *_shared(names, shared, cite),
        *_alone(names, shared, cite),
        *_without_ticker(names, (a, b), sheet, cite, reference),
        *_notes(names, (a, b), shared, cite),
        *model_text(summary),
        *_receipts([a, b, shared, *([sheet] if sheet else [])], cite),
        *_label((a, b)),
    ]
    return "\n".join(parts) + "\n"


def _overlap(shared: PriorResult, cite: Cite) -> Iterator[str]:
    value = shared.value
    weight, count = cite(value["overlap"] + " %", shared), cite(value["shared_count"], shared)
    tickers = "ticker" if str(value["shared_count"]) == "1" else "tickers"
    yield f"**Weight overlap: {weight}** over {count} shared {tickers}."
    yield ""
    for warning in value.get("warnings", ()):  # results of an earlier version have none
        yield f"**Check this first:** {cite(warning, shared)}"
        yield ""
    yield "The sum, over the tickers that both funds hold, of the smaller weight. Exact in the weights as read."
    yield ""


def _disclosures(
    names: tuple[str, str], sides: tuple[PriorResult, PriorResult], shared: PriorResult, cite: Cite
) -> Iterator[str]:
    yield "## The two disclosures"
    yield ""
    yield f"| | {' | '.join(escape(name) for name in names)} |"
    yield "| --- | ---: | ---: |"
    yield _row("Day", (cite(side.value["as_of"] or "not said", side) for side in sides))
    yield _row("Lines", (cite(side.value["line_count"], side) for side in sides))
    yield _row("Tickers", (cite(len(side.value["holdings"]), side) for side in sides))
    yield _row("Lines without a ticker", (cite(len(side.value["without_ticker"]), side) for side in sides))
    yield _row("Weights add up to", (cite(side.value["total_weight"] + " %", side) for side in sides))
    alone = [shared.value[name] for name in ("a", "b")]
    yield _row("Tickers held by this fund only", (cite(side["only_count"], shared) for side in alone))
    yield _row("Their weight", (cite(side["only_weight"] + " %", shared) for side in alone))
    yield ""


def _shared(names: tuple[str, str], shared: PriorResult, cite: Cite) -> Iterator[str]:
    rows = shared.value["shared"]
    yield "## Shared tickers"
    yield ""
    if not rows:
        yield "None."
    else:
        yield f"| Ticker | Name | {' | '.join(escape(name) for name in names)} | Smaller |"
        yield "| --- | --- | ---: | ---: | ---: |"
    for x in rows[:SHARED_ROWS]:
        weights = (cite(x[key] + " %", shared) for key in ("a", "b", "smaller"))
        yield _row(escape(x["ticker"]), (escape(x["name"]), *weights))
    yield from _more(len(rows) - SHARED_ROWS, shared, cite)


def _alone(names: tuple[str, str], shared: PriorResult, cite: Cite) -> Iterator[str]:
    for name, key in zip(names, ("a", "b"), strict=True):
        rows = shared.value[key]["only"]
        yield f"## Held by {escape(name)} only"
        yield ""
        if not rows:
            yield "None."
        else:
            yield "| Ticker | Name | Weight |"
            yield "| --- | --- | ---: |"
        for x in rows[:ALONE_ROWS]:
            yield _row(escape(x["ticker"]), (escape(x["name"]), cite(x["weight"] + " %", shared)))
        yield from _more(len(rows) - ALONE_ROWS, shared, cite)


def _without_ticker(
    names: tuple[str, str],
    sides: tuple[PriorResult, PriorResult],
    sheet: PriorResult | None,
    cite: Cite,
    reference: bool,
) -> Iterator[str]:
    yield "## Lines without a ticker"
    yield ""
    if not any(side.value["without_ticker"] for side in sides):
        yield "Every line of both disclosures has a ticker."
        yield ""
        return
    yield "They do not count in the overlap."
    yield ""
    yield "| Fund | Line | Name | Weight |" + (" What the reference sheet says |" if reference else "")
    yield "| --- | ---: | --- | ---: |" + (" --- |" if reference else "")
    for name, side in zip(names, sides, strict=True):
        rows = side.value["without_ticker"]
        for x in rows[:LINE_ROWS]:
            cells = [cite(x["line"], side), escape(x["name"]), cite(x["weight"] + " %", side)]
            yield _row(escape(name), (*cells, *([_answer(x["name"], sheet, cite)] if reference else [])))
        if len(rows) > LINE_ROWS:
            yield _row(
                escape(name), (cite(f"and {len(rows) - LINE_ROWS} more", side), "", "", *([""] if reference else []))
            )
    yield ""


def _answer(name: str, sheet: PriorResult | None, cite: Cite) -> str:
    """What the sheet says of a line. A line that it does not cover is named as such; nobody is asked."""
    if sheet is None:
        return "The sheet gave no answer."
    found = next((answer for answer in sheet.value["answers"] if answer["line"] == name), None)
    if found is None:
        return "Not asked."
    if not found["covered"]:
        return cite("Not covered by the sheet.", sheet)
    return cite(f"{found['kind']}: {found['text']}", sheet)


def _notes(
    names: tuple[str, str], sides: tuple[PriorResult, PriorResult], shared: PriorResult, cite: Cite
) -> Iterator[str]:
    sources = [("Both", shared), *zip(names, sides, strict=True)]
    if not any(source.value["notes"] for _, source in sources):
        return
    yield "## Notes on the files"
    yield ""
    for name, source in sources:
        notes = [note for note in source.value["notes"] if note not in source.value.get("warnings", ())]
        for note in notes[:NOTES]:
            yield f"- {escape(name)}: {cite(note, source)}"
        if len(notes) > NOTES:
            yield f"- {escape(name)}: {cite(f'{len(notes) - NOTES} more notes stand in the receipt.', source)}"
    yield ""


def model_text(summary: str) -> Iterator[str]:
    """The model's own words, marked as such."""
    yield "## Text from the model"
    yield ""
    yield "Nobody has checked it. It is shown as written and decides nothing."
    yield ""
    yield f"> {escape(summary)}"
    yield ""


def _receipts(sources: Sequence[PriorResult], cite: Cite) -> Iterator[str]:
    yield "## Receipts"
    yield ""
    yield "The numbers come from the stored results of these steps:"
    yield ""
    for source in sources:
        yield f"- {cite(source.step_name, source)}"
    yield ""


def _label(sides: tuple[PriorResult, PriorResult]) -> Iterator[str]:
    synthetic = "Synthetic data. " if any(side.value["synthetic"] for side in sides) else ""
    yield "---"
    yield ""
    yield f"{synthetic}Computed from the files given to this run. Not an investment conclusion."


def _more(count: int, source: PriorResult, cite: Cite) -> Iterator[str]:
    yield ""
    if count > 0:
        yield f"And {cite(count, source)} more; the receipt lists them all."
        yield ""


def _row(head: str, cells: Iterator[str] | Sequence[str]) -> str:
    return f"| {' | '.join((head, *cells))} |"
