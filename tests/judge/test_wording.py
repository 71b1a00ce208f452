from pytest_nsight.judge.wording import write_names


def test_long_lists_of_names_are_cut():
    assert write_names("abcdefghij") == "a, b, c, d, e, f, g, h and 2 more"
