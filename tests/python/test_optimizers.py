"""Optimizer classes as users write them: the bits of a plain process, or refused by name."""

CLASSES = ["groups", "warming_up", "refused", "attributes"]


def test_classes_step_as_in_a_plain_process(run_ranks):
    printed = run_ranks(2, "classes.py", *CLASSES)
    assert printed.count("as in a plain process") == 2 * len(CLASSES), printed
