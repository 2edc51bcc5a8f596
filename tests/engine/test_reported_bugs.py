"""The table of what users reported of other systems (B33 to B61): for each report the tests that hold it, here and elsewhere."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
HERE = ("engine/test_reported_state.py", "engine/test_reported_effects.py")
# Reports that these files hold under their own names; `b33` and so on are found here by their names.
ELSEWHERE: dict[int, tuple[str, ...]] = {
    33: ("engine/test_loop.py::test_arguments_keep_their_types_also_in_another_worker",),
    34: (
        "engine/test_envelope.py::test_a_note_of_an_unknown_format_can_be_tried_again",
        "engine/test_upgrade.py::test_a_woken_run_of_an_older_format_is_held_and_nothing_of_it_moves",
    ),
    40: (
        "engine/test_deltas.py::test_what_a_revision_takes_does_not_grow_with_what_came_before",
        "contract/test_size.py::test_what_a_result_weighs_does_not_weigh_on_the_revisions_after_it",
    ),
    42: ("contract/test_once.py::test_thirty_results_of_one_step_at_once_are_thirty_facts",),
    43: ("contract/test_cas.py::test_of_many_saves_at_once_one_wins_and_the_chain_has_no_fork",),
    45: ("engine/test_supersteps.py::test_b45_a_third_call_of_unknown_outcome_leaves_the_first_two_alone",),
    46: ("scenarios/test_f03_outcome_unknown.py::test_the_run_is_held_and_nothing_is_sent_however_long",),
    48: ("engine/test_takeover.py::test_a_worker_that_comes_back_after_another_has_finished_writes_nothing",),
    49: ("engine/test_takeover.py::test_a_run_that_is_delivered_eight_times_is_continued_once",),
    51: ("contract/test_lease.py::test_the_clock_of_a_worker_counts_nowhere",),
    52: ("engine/test_takeover.py::test_the_fence_is_proved_before_a_request_is_sent",),
    53: ("engine/test_takeover.py::test_a_run_whose_worker_is_lost_at_every_step_still_ends",),
    54: ("scenarios/test_b54_sweeper.py::test_the_next_sweep_finds_what_a_killed_one_left",),
    56: ("doors/test_live.py::test_a_lost_listener_makes_every_tab_ask_again",),
    57: ("scenarios/test_liveness.py::test_a_frozen_process_keeps_its_lease_and_a_dead_one_beside_it_does_not",),
    58: (
        "engine/test_stop.py::test_the_heartbeat_adopts_a_stop_while_a_call_is_in_flight",
        "scenarios/test_f13_stop_in_flight.py::test_what_was_sent_lands_and_nothing_else_starts",
    ),
    59: ("doors/test_live.py::test_b59_a_tab_that_is_closed_changes_nothing_of_its_run",),
    60: (
        "engine/test_stop.py::test_a_stopping_run_whose_worker_is_lost_is_closed_by_the_next",
        "engine/test_stop.py::test_a_stop_of_a_run_whose_worker_is_gone_is_settled_by_the_sweep",
    ),
}


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("number", range(33, 62))
def test_every_report_is_held_by_a_test(number: int) -> None:
    named = ELSEWHERE.get(number, ())
    for each in named:
        file, _, test = each.partition("::")
        assert test in names_in(file), each
    assert named or any(name.startswith(f"test_b{number}_") for file in HERE for name in names_in(file))
