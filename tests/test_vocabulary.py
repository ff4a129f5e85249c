"""The labels of every open enumeration, and the bucket rule of orders."""

import pytest

from backoffice.core import vocabulary as v
from backoffice.core.vocabulary import interpretations

TESTKIT = "testkit"
METHODS = ["testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection", "method_x", ""]

LOW_LEVEL = [
    "ordered",
    "requisition_created",
    "requisition_bypassed",
    "transit_customer",
    "out_for_delivery",
    "with_customer",
    "transit_lab",
    "delivered_to_lab",
    "completed",
    "failure_to_deliver_to_lab",
    "failure_to_deliver_to_customer",
    "problem_in_transit_lab",
    "problem_in_transit_customer",
    "sample_error",
    "appointment_scheduled",
    "appointment_cancelled",
    "appointment_pending",
    "draw_completed",
    "cancelled",
    "lost",
    "do_not_process",
    "partial_results",
    "awaiting_registration",
    "registered",
    "redraw_available",
    "corrected",
    "lab_processing_blocked",
]

NEEDS_ACTION = [
    "problem_in_transit_customer",
    "problem_in_transit_lab",
    "failure_to_deliver_to_customer",
    "failure_to_deliver_to_lab",
    "lost",
    "sample_error",
    "lab_processing_blocked",
    "redraw_available",
    "appointment_cancelled",
]


def test_vocabulary_has_27_statuses_of_specification() -> None:
    assert len(LOW_LEVEL) == 27
    assert set(v.VOCABULARIES["order.low_level_status"]) == set(LOW_LEVEL)


@pytest.mark.parametrize("vocabulary", sorted(v.VOCABULARIES))
def test_every_term_has_label_and_glyph_of_its_family(vocabulary: str) -> None:
    for value, item in v.VOCABULARIES[vocabulary].items():
        assert item.value == value
        assert item.label and "_" not in item.label
        assert item.family in v.GLYPHS
        assert bool(item.glyph) == (item.family != v.PLAIN)


@pytest.mark.parametrize("vocabulary", sorted(v.VOCABULARIES))
def test_unknown_value_gets_default_term(vocabulary: str) -> None:
    item = v.term(vocabulary, "never_seen_before")
    words = "Not interpreted: " if vocabulary in interpretations.VOCABULARIES else ""
    assert item.label == f"{words}never_seen_before"
    assert (item.family, item.glyph) == ("unknown", "question")
    assert not v.is_known(vocabulary, "never_seen_before")


def test_two_unknown_values_stay_different() -> None:
    assert v.term("order.status", "one") != v.term("order.status", "two")


@pytest.mark.parametrize("empty", [None, ""])
def test_missing_value_is_not_unknown(empty: str | None) -> None:
    assert v.is_known("order.origin", empty)
    assert v.term("order.origin", empty).family == v.PLAIN


def test_unknown_vocabulary_raises_key_error() -> None:
    with pytest.raises(KeyError):
        v.term("order.color", "red")


def test_alternative_spellings_are_the_same_value() -> None:
    assert v.term("order.low_level_status", "testkit_registered").value == "registered"
    assert v.is_known("order.low_level_status", "testkit_registered")
    assert v.term("person.gender", "Male").label == "Male"
    assert v.term("marker.question_type", "multiple_choice").value == "multi_choice"


@pytest.mark.parametrize(
    ("dotted", "high", "low"),
    [
        ("collecting_sample.testkit.transit_customer", "collecting_sample", "transit_customer"),
        ("received.testkit.testkit_registered", "received", "registered"),
        ("ordered", "", "ordered"),
        ("a.b.c.d", "a", "c.d"),
        ("", "", ""),
    ],
)
def test_dotted_status_is_split(dotted: str, high: str, low: str) -> None:
    assert v.bucket_of(dotted) == high
    assert v.low_level(dotted) == low


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("bucket", "statuses"),
    [
        (v.NEEDS_ACTION, NEEDS_ACTION),
        (v.RESULT_IN, ["completed", "corrected"]),
        (v.CLOSED, ["cancelled", "do_not_process"]),
        (v.AT_LAB, ["delivered_to_lab", "partial_results"]),
        (
            v.ON_THE_WAY,
            [
                "transit_customer",
                "out_for_delivery",
                "appointment_pending",
                "appointment_scheduled",
                "draw_completed",
                "transit_lab",
            ],
        ),
        (v.WITH_PATIENT, ["with_customer", "registered", "testkit_registered"]),
        (v.PREPARING, ["ordered", "awaiting_registration"]),
        (v.UNKNOWN, ["teleported", ""]),
    ],
)
def test_most_statuses_have_one_bucket_for_all_methods(
    bucket: str, statuses: list[str], method: str
) -> None:
    for status in statuses:
        assert v.order_bucket(status, method, ["with_customer"]) == bucket
        assert v.order_term(status, method, []).family == bucket


@pytest.mark.parametrize("status", ["requisition_created", "requisition_bypassed"])
@pytest.mark.parametrize(
    ("method", "history", "bucket"),
    [
        (TESTKIT, [], v.PREPARING),
        (TESTKIT, ["received.testkit.ordered"], v.PREPARING),
        (TESTKIT, ["collecting_sample.testkit.transit_customer"], v.ON_THE_WAY),
        (TESTKIT, ["transit_customer", "collecting_sample.testkit.with_customer"], v.WITH_PATIENT),
        (TESTKIT, ["received.testkit.testkit_registered"], v.WITH_PATIENT),
        ("walk_in_test", [], v.WITH_PATIENT),
        ("at_home_phlebotomy", [], v.WITH_PATIENT),
        ("on_site_collection", ["with_customer"], v.PREPARING),
        ("method_x", ["with_customer"], v.PREPARING),
    ],
)
def test_requisition_bucket_depends_on_method(
    status: str, method: str, history: list[str], bucket: str
) -> None:
    assert v.order_bucket(status, method, history) == bucket
    assert v.order_term(status, method, history).family == bucket


@pytest.mark.parametrize(
    ("method", "label", "turn"),
    [
        ("testkit", "Paperwork ready", "the service"),
        ("walk_in_test", "Ready to walk in", "the patient"),
        ("at_home_phlebotomy", "Ready to book", "the patient"),
        ("on_site_collection", "Ready to collect", "us"),
        ("method_x", "Paperwork ready", "the service"),
    ],
)
def test_requisition_label_says_what_comes_next(method: str, label: str, turn: str) -> None:
    item = v.order_term("requisition_created", method, [])
    assert (item.label, item.turn) == (label, turn)
    assert v.order_term("requisition_bypassed", method, []).label == "Imported – no paperwork"


def test_choices_offer_known_values() -> None:
    assert ("testkit", "Test kit") in v.choices("order.method")
