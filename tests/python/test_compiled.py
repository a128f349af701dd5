"""A compiled model trains with the bits of a plain process."""


def test_a_compiled_model_has_the_bits_of_a_plain_process(run_ranks):
    assert run_ranks(2, "compiled.py").count("compiled: equal") == 2
