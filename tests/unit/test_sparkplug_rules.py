"""What goes wrong between a node and who listens to it, and the tests of what is done about it."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
INGEST, REBIRTHS = "unit/gateway/core/test_ingest.py", "unit/gateway/bridge/test_rebirths.py"
HOST_STATE, SYSTEM = "unit/gateway/bridge/test_host_state.py", "system/test_sparkplug_restart.py"
VIEW, SEQUENCE, NODE = (f"unit/sparkplug/test_{name}.py" for name in ("view", "sequence", "node"))
HOST, STATE, BUDGET = (f"unit/sparkplug/test_{name}.py" for name in ("host", "state", "rebirth"))

RULES: dict[str, list[tuple[str, str]]] = {
    "data before the birth waits for it, in its own session": [
        (INGEST, "the_same_before_the_birth_as_mqtt_js_sends_it"),
        (REBIRTHS, "data_before_a_birth_waits_a_moment_for_it"),
        (REBIRTHS, "data_without_a_birth_is_asked_for_one_with_growing_pauses"),
        (SYSTEM, "alias_only_data_after_a_kill"),
        (VIEW, "data_before_the_birth_waits_for_it"),
        (VIEW, "data_of_the_last_session_that_comes_before_the_new_birth_is_history"),
    ],
    "an old seq after NBIRTH is no gap but late": [
        (INGEST, "an_old_seq_after_a_new_birth_is_late_and_no_gap"),
        (VIEW, "a_replay_of_before_the_birth_is_history_with_the_names_of_then"),
        (SEQUENCE, "replays_of_before_the_birth_are_late_and_open_no_hole"),
    ],
    "the same seq and bytes at QoS 1 is dropped": [
        (INGEST, "the_same_seq_and_bytes_again_are_given_to_nobody_but_acknowledged"),
        (INGEST, "a_repetition_over_a_reconnect_although_its_seq_is_the_next"),
        (INGEST, "the_answer_to_a_repetition_waits_for_the_first_one"),
        (VIEW, "a_repetition_is_dropped_and_other_bytes_are_not"),
        (SEQUENCE, "a_repetition_is_dropped_wherever_its_first_is"),
    ],
    "the same seq with other bytes is a message of its own": [
        (INGEST, "the_same_seq_with_other_bytes_is_another_message"),
        (INGEST, "the_same_bytes_in_order_are_no_repetition"),
        (SEQUENCE, "the_same_seq_with_other_bytes_is_no_repetition"),
    ],
    "a gap of more than 256 is told by time": [
        (REBIRTHS, "a_gap_longer_than_the_counter_is_told_by_time"),
        (SEQUENCE, "a_long_gap_is_believed_when_time_says_so"),
        (SEQUENCE, "a_replay_of_256_messages_ago_is_known_by_its_time"),
    ],
    "an NDEATH of another bdSeq is ignored": [
        (INGEST, "a_death_of_another_session_is_stale"),
        (REBIRTHS, "a_stale_death_and_an_old_birth_ask_for_nothing"),
        (VIEW, "a_death_of_another_session_is_ignored_and_the_node_shows_that_it_lives"),
    ],
    "an NBIRTH with the bdSeq of the last NDEATH is doubted and asked for": [
        (INGEST, "a_birth_with_the_bd_seq_of_the_death_is_in_doubt"),
        (REBIRTHS, "a_birth_in_doubt_is_asked_for_again"),
        (VIEW, "a_birth_that_its_death_overtook_is_not_believed"),
        (VIEW, "a_birth_after_its_own_death_is_believed_when_it_answers_a_request"),
    ],
    "a replayed birth never takes the place of a newer one": [
        (INGEST, "an_old_birth_never_takes_the_place_of_a_newer_one"),
        (VIEW, "an_older_birth_never_replaces_a_newer_one"),
        (HOST, "a_retained_birth_is_not_believed"),
    ],
    "commands expire and are not replayed": [
        ("conformance/test_sparkplug.py", "commands_that_waited_too_long_are_not_given"),
        (NODE, "commands_of_another_time_or_for_others_are_not_carried_out"),
    ],
    "a stale STATE is told by its time, and contradicted by its host": [
        (HOST_STATE, "a_stale_state_of_before_a_crash_is_replaced_by_a_newer_one"),
        (HOST_STATE, "nobody_else_says_it"),
        (HOST, "somebody_who_says_that_the_host_is_offline_is_contradicted"),
        (STATE, "a_state_follows_what_is_not_newer"),
        (NODE, "a_valid_offline_of_the_primary_host_ends_the_session"),
    ],
    "a STATE of 2.2 has no time and counts in its session alone": [
        (HOST_STATE, "the_word_of_2_2_has_no_time_and_is_that_of_this_session_alone"),
        (NODE, "a_legacy_state_counts_in_the_session_in_which_it_comes"),
    ],
    "rebirths have a pause for each node and a budget for all": [
        (REBIRTHS, "the_budget_of_all_nodes_bounds_a_storm"),
        (REBIRTHS, "a_node_whose_holes_never_end_is_left_in_peace"),
        (BUDGET, "a_node_is_asked_at_once_and_then_with_growing_pauses"),
        (BUDGET, "all_together_stay_within_the_budget_and_nobody_is_passed_over"),
        (BUDGET, "no_order_of_events_exceeds_budget_or_pause"),
        ("drill/test_drill.py", "a_collector_away_for_ten_hours_loses_nothing_that_was_ingested"),
    ],
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_its_tests(rule: str) -> None:
    for file, name in RULES[rule]:
        there = re.findall(r"^ *(?:async )?def (\w+)", (TESTS / file).read_text(), re.MULTILINE)
        assert f"test_{name}" in there, file
