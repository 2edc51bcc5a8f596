"""Which tests hold the rulings of the design that answer races: the race without its guard, and that it can't happen.

Each ruling was found as a race on a real database. `shown` are tests that take the guard out and see it happen; `held` are
tests that have the guard in place. All of them run on live connections.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Ruling:
    """What a ruling says, and the tests that show and hold it, as `file::test`."""

    says: str
    shown: tuple[str, ...]
    held: tuple[str, ...]


RACES = "engine/test_ruling_races.py"
STOPS = "engine/test_stop_races.py"
STEPS = "engine/test_statements.py"
RULINGS: dict[int, Ruling] = {
    3: Ruling(
        "A stop beats a dispatch; a result is recorded all the same.",
        (f"{STOPS}::test_without_the_gate_a_dispatch_would_come_after_the_stop",),
        (
            f"{STOPS}::test_a_dispatch_that_waited_for_a_stop_sends_nothing",
            f"{STOPS}::test_after_a_stop_no_attempt_is_ever_added",
            "contract/test_fence.py::test_a_step_that_waited_for_a_stop_starts_nothing",
        ),
    ),
    4: Ruling(
        "The checks run inside the commit that consumes the wait.",
        (f"{RACES}::test_without_the_check_inside_the_commit_a_call_would_go_out_on_withdrawn_ground",),
        (
            "engine/test_commitments.py::test_a_withdrawal_after_the_check_and_before_the_commit_that_sends_is_seen_by_it",
            "engine/test_decide_after.py::test_an_approval_that_lapses_between_check_and_commit_is_not_used",
            "scenarios/test_f04_before_dispatch.py::test_the_next_worker_checks_again_and_sends_once",
        ),
    ),
    23: Ruling(
        "A commit that frees the lease looks for a stop again.",
        (f"{STOPS}::test_without_another_look_a_stop_would_be_accepted_and_belong_to_nobody",),
        (f"{STOPS}::test_a_worker_that_gives_its_run_back_finds_the_stop",),
    ),
    24: Ruling(
        "Facts hang on the fence, new work on the second gate.",
        (
            "contract/test_fence.py::test_with_one_gate_for_facts_and_starts_a_stop_would_lose_a_result",
            "engine/test_caps.py::test_without_the_lock_they_would_reserve_beyond_the_cap",
        ),
        (
            f"{STEPS}::test_a_turn_is_sealed_where_its_call_may_not_start",
            f"{STEPS}::test_a_result_is_stored_where_the_next_turn_may_not_be_asked",
            "contract/test_fence.py::test_under_a_stop_facts_are_still_written",
        ),
    ),
    25: Ruling(
        "An intent with an effect is claimed once in a lineage.",
        ("engine/test_lineage.py::test_without_the_unique_claim_both_would_send_it",),
        (
            "engine/test_lineage.py::test_two_runs_of_a_lineage_that_dispatch_one_intent_at_once_send_it_once",
            "engine/test_lineage.py::test_the_second_one_waits_for_the_first_ones_commit",
        ),
    ),
    26: Ruling(
        "A statement relies only on rows that it locks; what else decides is read after the lock.",
        (
            f"{RACES}::test_without_the_lock_of_the_run_each_of_the_last_two_would_see_the_other_open",
            f"{STEPS}::test_without_the_lock_it_would_write_under_a_fence_that_has_passed",
            "contract/test_fence.py::test_without_the_lock_a_step_would_write_beside_the_taker",
        ),
        (
            f"{RACES}::test_the_last_two_decisions_at_once_queue_the_run",
            f"{STEPS}::test_a_statement_that_waited_for_a_taker_writes_nothing_at_all",
            "engine/test_supersteps.py::test_f20_siblings_that_are_done_are_not_repeated_after_a_crash",
        ),
    ),
    27: Ruling(
        "A verdict, a release and a raised cap are never lost beside a worker that parks the run.",
        ("engine/test_reconcile_races.py::test_without_another_look_the_verdict_would_be_lost",),
        (
            "engine/test_reconcile_races.py::test_a_verdict_that_comes_before_the_run_is_parked_is_not_lost",
            "engine/test_goal.py::test_a_release_that_comes_before_the_run_is_held_is_not_lost",
            "engine/test_caps.py::test_a_cap_that_is_raised_while_the_worker_parks_the_run_is_not_lost",
        ),
    ),
    28: Ruling(
        "The facts of a verdict are written with it, on a live or an ended run.",
        (f"{RACES}::test_without_them_a_stop_before_the_adoption_would_bury_the_verdict",),
        (
            f"{RACES}::test_a_stop_after_a_verdict_finds_its_facts_stored",
            "engine/test_reconcile.py::test_a_verdict_on_an_ended_run_settles_everything_but_the_run",
            "engine/test_reconcile_races.py::test_a_verdict_and_a_stop_at_once_both_count",
        ),
    ),
    29: Ruling(
        "A probe raises the fence first, then looks.",
        ("contract/test_unknown.py::test_without_the_higher_fence_it_would_land_after_the_probe",),
        (
            "contract/test_unknown.py::test_a_save_that_was_still_on_its_way_can_not_land_after_the_probe",
            "engine/test_lost_commits.py::test_a_statement_that_was_still_in_a_socket_writes_nothing_after_the_probe",
        ),
    ),
    30: Ruling(
        "Superseding takes waits back before the head moves, each with a wakeup of its cause.",
        (
            f"{RACES}::test_without_taking_the_wait_back_first_the_head_could_not_move",
            f"{RACES}::test_without_the_cause_in_its_key_the_second_wakeup_of_a_wait_would_be_lost",
        ),
        (
            f"{RACES}::test_a_goal_is_revised_while_a_wait_is_open",
            f"{RACES}::test_a_wait_that_was_decided_and_then_superseded_wakes_its_run_by_that_cause",
            "engine/test_goal.py::test_a_decision_and_a_revision_at_once_never_run_what_was_taken_back",
        ),
    ),
    31: Ruling(
        "A failed check ends the approval, and voids its decided siblings too.",
        (f"{RACES}::test_without_voiding_the_siblings_a_decision_of_a_failed_barrier_would_be_used",),
        ("engine/test_supersteps.py::test_a_failed_check_voids_the_decided_siblings_too_and_all_are_asked_again",),
    ),
    32: Ruling(
        "A pause starts nothing new and keeps waits; resume settles only the pause.",
        ("engine/test_pause.py::test_without_its_gate_a_pause_would_not_keep_a_call_from_being_sent",),
        (
            "engine/test_pause.py::test_before_each_statement_a_pause_lets_facts_commit_and_nothing_new_start",
            "engine/test_pause.py::test_a_pause_taken_back_while_the_worker_is_about_to_adopt_it_lets_it_go_on",
            "engine/test_pause.py::test_a_pause_and_a_decision_at_once_leave_the_run_paused_with_the_decision",
        ),
    ),
    33: Ruling(
        "After PROCEED_UNKNOWN a later verdict moves no head, and the model hears of it in its next request.",
        ("engine/test_proceed_unknown.py::test_without_the_gate_the_next_request_would_not_hear_of_it",),
        (
            "engine/test_proceed_unknown.py::test_a_later_verdict_writes_its_facts_and_moves_no_head",
            "engine/test_proceed_unknown.py::test_a_later_verdict_is_heard_in_the_next_request_and_the_old_answer_stays",
        ),
    ),
    34: Ruling(
        "A run that an ancestor's call holds is woken by what becomes of it, each held run by its own wakeup.",
        (f"{RACES}::test_without_the_run_in_its_key_one_of_the_two_wakeups_would_be_lost",),
        (
            f"{RACES}::test_one_verdict_wakes_every_run_that_its_call_held",
            "engine/test_lineage.py::test_an_ancestor_that_is_settled_while_the_descendant_is_parked_is_not_missed",
        ),
    ),
    35: Ruling(
        "What the last check read stays as it is until the commit.",
        (f"{RACES}::test_without_the_share_lock_a_withdrawal_would_come_between_the_last_check_and_the_commit",),
        (
            "engine/test_commitments.py::test_a_withdrawal_waits_for_the_commit_that_relies_on_it",
            "engine/test_decide_after.py::test_an_approval_under_another_policy_is_asked_for_again",
        ),
    ),
    36: Ruling(
        "A lapsed approval ends a retry, and a reading of unknown outcome blocks nobody after its run.",
        (f"{RACES}::test_without_its_closing_it_would_block_for_ever",),
        (
            f"{RACES}::test_a_reading_of_unknown_outcome_blocks_nobody_once_its_run_has_ended",
            "engine/test_loop.py::test_an_approval_that_lapses_before_a_retry_is_not_used",
        ),
    ),
    37: Ruling(
        "Everybody locks in one order.",
        (f"{RACES}::test_without_the_order_one_of_two_would_be_cut_off",),
        (
            f"{RACES}::test_two_that_lock_in_the_one_order_follow_each_other",
            f"{STEPS}::test_people_and_workers_that_lock_at_once_never_wait_for_each_other_in_a_ring",
            f"{STEPS}::test_every_statement_begins_with_the_fence",
        ),
    ),
}


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_ruling_about_a_race_is_held() -> None:
    assert sorted(RULINGS) == [3, 4, *range(23, 38)]


@pytest.mark.parametrize("number", RULINGS)
def test_a_ruling_names_tests_that_exist(number: int) -> None:
    ruling = RULINGS[number]
    assert ruling.shown and ruling.held
    for named in (*ruling.shown, *ruling.held):
        file, _, test = named.partition("::")
        assert test in names_in(file), named
