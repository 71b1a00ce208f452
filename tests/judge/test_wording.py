from pytest_nsight.judge.wording import write_diff, write_names
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.verdicts import ShapeChange


def test_a_launch_count_is_written_and_not_counted_out():
    shape = Shape("kernel", "mul")

    assert write_diff([ShapeChange(shape, 2**31, 1)]) == "- 2,147,483,647 launches: mul (x2147483647)"


def test_long_lists_of_names_are_cut():
    assert write_names("abcdefghij") == "a, b, c, d, e, f, g, h and 2 more"
