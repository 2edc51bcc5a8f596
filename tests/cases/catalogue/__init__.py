"""The forty cases, in the order of the sheet."""

from tests.cases.case import Case
from tests.cases.catalogue.answers import ANSWERS
from tests.cases.catalogue.approvals import APPROVALS
from tests.cases.catalogue.runs import RUNS
from tests.cases.catalogue.traps import TRAPS
from tests.cases.catalogue.unknown import UNKNOWN

# Mixed by a fixed step, so that the sheet does not put what is alike side by side and tells by no order what is a trap.
_ALL = (*APPROVALS, *TRAPS, *UNKNOWN, *ANSWERS, *RUNS)
_STEP = 17  # has no factor in common with forty
CASES: dict[int, Case] = {number + 1: _ALL[number * _STEP % len(_ALL)] for number in range(len(_ALL))}
