"""What a wrong example on a page is told: the harness of this folder can fail."""

import sys
from pathlib import Path

import pytest
from blocks import Block
from reading import Reader, WrongExampleError, words_of
from shell import WrongCommandError, check_block, lines_of


def block(language: str, text: str, line: int = 5) -> Block:
    return Block("docs/page.md", line, language, text, "", "Heading")


def read(folder: Path, *blocks: Block, **given: object) -> dict[str, object]:
    Reader("docs/page.md", folder, given).read(blocks)
    return given


def test_blocks_share_one_namespace(tmp_path: Path) -> None:
    names = read(tmp_path, block("python", "a = 1"), block("python", "b = a + given"), given=2)
    assert names["b"] == 3


def test_a_name_that_nothing_defines_is_an_error_on_the_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(NameError) as raised:
        read(tmp_path, block("python", "a = 1\nmissing()", line=20))
    assert raised.traceback[-1].lineno == 20  # counted from 0


def test_tests_of_a_page_run_once(tmp_path: Path) -> None:
    names = read(tmp_path, block("python", "ran = []\ndef test_it():\n    ran.append(1)"), block("python", "a = 1"))
    assert names["ran"] == [1]
    with pytest.raises(AssertionError):
        read(tmp_path, block("python", "def test_it():\n    assert 1 == 2"))


def test_classes_of_a_page_belong_to_the_program(tmp_path: Path) -> None:
    assert read(tmp_path, block("python", "class A:\n    pass"))["A"].__module__ == "__main__"  # type: ignore[attr-defined]


def test_what_is_shown_below_a_block_is_what_it_prints(tmp_path: Path) -> None:
    prints = block("python", "print('a 1')\nprint('b')")
    read(tmp_path, prints, block("text", "a 1\nb"))
    read(tmp_path, prints, block("text", "a …\nb"))
    with pytest.raises(WrongExampleError, match="the block above it prints"):
        read(tmp_path, prints, block("text", "a 2\nb"))


def test_a_value_in_a_comment_is_the_value_of_its_line(tmp_path: Path) -> None:
    read(tmp_path, block("python", "a = {}\na.get(1)  # None\na  # the dict"))
    with pytest.raises(WrongExampleError, match=r"docs/page\.md:6: the value is 2, not 3"):
        read(tmp_path, block("python", "a = 1\na + 1  # 3"))


def test_a_block_with_a_title_is_a_file_that_others_import(tmp_path: Path) -> None:
    saved = Block("docs/page.md", 5, "python", "ANSWER = 42", "saved_by_a_page.py", "Heading")
    names = read(tmp_path, saved, block("python", "import saved_by_a_page\nb = saved_by_a_page.ANSWER"))
    assert names["b"] == 42
    assert "saved_by_a_page" not in sys.modules


def test_commands_make_files_in_the_folder_of_the_page(tmp_path: Path) -> None:
    read(tmp_path, block("sh", "mkdir in\ncat > in/a.json <<'END'\n{\"k\": 1}\nEND\necho '{}' >> in/a.json"))
    assert (tmp_path / "in" / "a.json").read_text() == '{"k": 1}\n{}\n'


def test_a_command_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    with pytest.raises(WrongExampleError, match=r"docs/page\.md:5: lakestate status flights"):
        read(tmp_path, block("console", "$ lakestate status flights --root state\nflights"))


def test_a_command_prints_the_words_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    with pytest.raises(WrongExampleError, match=r"does not print \['flight', 'generation'\]"):
        read(tmp_path, block("console", "$ lakestate list --root state\ngeneration  1\nflights"))


def test_words_leave_out_what_differs_from_run_to_run() -> None:
    shown = 'sp-20261121T233834-5b8afaca  native, epoch 1/7, 15 files, 44 KiB, 1 min 2 s ago in /srv/state\n{"a": null}'
    assert words_of(shown) == {"native", "epoch", "file", "ago", "in", "null"}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lakestate stauts flights --root state", "No such command 'stauts'"),
        ("lakestate status flights --root state --rot x", "No such option: --rot"),
        ("lakestate checkpoints flights --root state --limit many", "should be a valid integer"),
        ("make tset", "make has no verb tset"),
        ('make bench ARGS="running_cuont"', "No such command 'running_cuont'"),
        ('make up ARGS="--prot 1"', "No such option: --prot"),
        ("pytest tests/nothing", "tests/nothing does not exist"),
        ("python -m state_engine.nothing", "there is no such module"),
        ("python gone.py", "says what is in this file"),
        ("lakestat list", "lakestat is not a program"),
        ("echo 'a", "No closing quotation"),
    ],
)
def test_a_command_that_does_not_exist_is_refused(typed: str, said: str) -> None:
    with pytest.raises(WrongCommandError, match=said):
        check_block(block("sh", typed), "docs/testing.md")


def test_lines_pipes_and_values_are_split_into_commands() -> None:
    text = "a=1 du -s x/* | sort -n  # a comment\nid=$(lakestate list --json) && \\\n  ls > out"
    assert [line.commands for line in lines_of(block("sh", text))] == [
        [["du", "-s", "x/*"], ["sort", "-n"]],
        [["lakestate", "list", "--json"], ["ls", ">", "out"]],
    ]
