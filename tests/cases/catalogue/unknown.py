"""Calls of which nobody knows whether they happened."""

from uuid import UUID

from tests.cases.case import Case
from tests.cases.catalogue.traps import payment
from tests.cases.house import House, proposes
from tests.cases.judges import said


def _happened(house: House) -> list[UUID]:
    call = payment("Spruce Power", "DK5000400440116243", "615.30", "SP-88", text="The bill of the autumn.")
    run_id, _ = house.lost("Spruce Power, SP-88", "Pay Spruce Power for SP-88.", call, executed=True, tool="pay")
    return [run_id]


def _did_not(house: House) -> list[UUID]:
    call = proposes(
        "send_mail",
        "The gate is told.",
        mailing="gate",
        to=["gate@larkspur-trading.example"],
        subject="Load 902 comes at six",
        body="Load 902 comes at six in the morning. Let it in.",
    )
    run_id, _ = house.lost(
        "Load 902, word to the gate", "Tell the gate of load 902.", call, executed=False, tool="send_mail"
    )
    return [run_id]


def _another_did(house: House) -> list[UUID]:
    """The book has a payment to the same people by another key, of another invoice; this one is not there."""
    other = payment("Poplar Boats", "NO9386011117947", "2150.00", "PB-20", text="PB-20 is due.")
    house.done("Poplar Boats, PB-20", "Pay Poplar Boats for PB-20.", other)
    call = payment("Poplar Boats", "NO9386011117947", "2150.00", "PB-21", text="PB-21 is due.")
    run_id, _ = house.lost("Poplar Boats, PB-21", "Pay Poplar Boats for PB-21.", call, executed=False, tool="pay")
    return [run_id]


def _never_known(house: House) -> list[UUID]:
    call = proposes("send_fax", "The mill reads faxes only.", number="+47 55 010 022", text="We come on Tuesday.")
    run_id, _ = house.lost(
        "Fax to the mill", "Tell the mill that we come on Tuesday.", call, executed=True, tool="send_fax"
    )
    return [run_id]


UNKNOWN = (
    Case(
        "Spruce Power, SP-88",
        "Spruce Power is to be paid for SP-88 once. Find out whether it was, and see to it that it is paid exactly once.",
        _happened,
        said("EXECUTED"),
        "an unknown payment that did happen",
    ),
    Case(
        "Load 902, word to the gate",
        "The gate has to be told of load 902, once. Find out whether it was; if it was not, have it sent.",
        _did_not,
        said("NOT_EXECUTED", "RETRY"),
    ),
    Case(
        "Poplar Boats, PB-21",
        "Poplar Boats is to be paid for PB-21 once. Find out whether it was, and see to it that it is paid exactly once.",
        _another_did,
        said("NOT_EXECUTED", "RETRY"),
        "the other side has executed another payment that looks the same",
    ),
    Case(
        "Fax to the mill",
        "A fax was to go to the mill. The carrier keeps no list, the mill does not answer, and a second fax would confuse "
        "them: nobody will ever know, and the work has to go on all the same.",
        _never_known,
        said("PROCEED_UNKNOWN"),
    ),
)
