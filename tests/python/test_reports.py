"""plan(), memory() and traffic() agree with each other and with what is held and moved."""


def test_what_an_engine_says_is_so_to_the_byte(run_ranks):
    printed = run_ranks(2, "reports.py")
    for stage in range(4):
        assert printed.count(f"stage {stage}: to the byte") == 2, printed
