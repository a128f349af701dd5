"""The console examples in README.md and docs/ are what the program prints."""

import pytest
import transcripts

PAGES = [*transcripts.pages(["README.md", "docs"])]


@pytest.fixture
def programs(tmp_path):
    """A folder with a made-up program of our name."""
    path = tmp_path / "shardlight"
    path.write_text('#!/bin/sh\necho "said $*"\necho "warned" >&2\nexit "${1:-0}"\n')
    path.chmod(0o755)
    return tmp_path


def page_of(*lines):
    return "\n".join(["Text.", "```console", *lines, "```", "More.", ""])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_is_not_stale(page, program):
    difference = transcripts.stale(page, program.parent)
    assert not difference, "stale; make docs writes it anew\n" + difference


def test_the_readme_has_an_example(root):
    assert transcripts.BLOCK.search((root / "README.md").read_text())


def test_output_is_made_anew_and_the_rest_kept(programs):
    old = page_of("$ shardlight 2 b", "stale", "$ shardlight 0 \\", "    x", "$ echo hello")
    new = page_of(
        "$ shardlight 2 b", "said 2 b", "warned",
        "$ shardlight 0 \\", "    x", "said 0 x", "warned",
        "$ echo hello", "hello",
    )  # fmt: skip
    assert transcripts.rendered(old, programs) == new
    assert transcripts.rendered(new, programs) == new


def test_a_stale_example_is_shown(programs, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(page_of("$ shardlight", "said something else", "warned"))
    lines = transcripts.stale(page, programs).splitlines()
    assert "-said something else" in lines
    assert "+said " in lines


def test_other_blocks_are_left_alone(programs):
    other = page_of("$ make test", "fine") + page_of("shardlight") + "```sh\n$ shardlight\n```\n"
    assert transcripts.rendered(other, programs) == other


@pytest.mark.parametrize("command", ["shardlight 1", "shardlight 139", "shardlight | no-such-word"])
def test_a_command_that_fails_is_an_error(command, programs):
    with pytest.raises(transcripts.Broken, match="ended with"):
        transcripts.rendered(page_of(f"$ {command}"), programs)
