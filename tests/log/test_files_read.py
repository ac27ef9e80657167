"""The files that a job's sources have read: those of a base, and those of the epochs after it."""

from state_engine.log.source_records import SourceFile, SourcePosition, files_read


def file(name: str) -> SourceFile:
    return SourceFile(path=name, timestamp=1)


def position(*names: str) -> SourcePosition:
    return SourcePosition(offset="{}", new_files=tuple(map(file, names)))


def names(files: tuple[tuple[SourceFile, ...], ...]) -> list[list[str]]:
    return [[one.path for one in source] for source in files]


def test_files_of_epochs_come_after_those_of_the_base_source_by_source() -> None:
    base = ((file("a"),), (file("x"),))
    read = files_read(base, [(position("b"), position()), (position("c"), position("y"))])
    assert names(read) == [["a", "b", "c"], ["x", "y"]]


def test_a_source_that_was_added_later_has_its_files() -> None:
    assert names(files_read(((file("a"),),), [(position("b"), position("y"))])) == [["a", "b"], ["y"]]


def test_a_source_of_the_base_that_later_epochs_lack_keeps_its_files() -> None:
    assert names(files_read(((file("a"),), (file("x"),)), [(position("b"),)])) == [["a", "b"], ["x"]]


def test_nothing_was_read_before_the_first_epoch() -> None:
    assert files_read((), []) == ()
