"""Bugs between the engine and Spark: source positions, subtasks, workers' caches, sinks."""

from mutant import Mutant

CHAIN = "tests/spark/test_subtask_of_a_chain.py"

MUTANTS = (
    Mutant(
        "source-files-of-the-epoch-before",
        "state_engine.spark.offsets",
        "OffsetLog._position",
        "range(self._file_offsets[index] + 1, offset + 1)",
        "range(max(self._file_offsets[index], 0), offset + 1)",
        "Each manifest names the files of the epoch before as new ones.",
        ("tests/spark/test_offsets.py::test_behind_a_seed_the_files_of_log_offset_0_are_known",),
    ),
    Mutant(
        "batch-of-several-log-entries",
        "state_engine.spark.offsets",
        "OffsetLog._position",
        "range(self._file_offsets[index] + 1, offset + 1)",
        "range(offset, offset + 1)",
        "Of a batch that spans several entries of Spark's log only the files of the last one are named.",
        ("tests/spark/test_offsets.py::test_a_source_that_ran_dry_brings_nothing",),
    ),
    Mutant(
        "files-of-a-compaction",
        "state_engine.spark.offsets",
        "OffsetLog._files_of",
        'if e["batchId"] == number]',
        'if e["batchId"] <= number]',
        "A manifest names files that epochs before it have read.",
        ("tests/spark/test_offsets.py::test_a_compacted_log_gives_only_the_files_of_its_own_number",),
    ),
    Mutant(
        "seeded-files-keep-their-batches",
        "state_engine.spark.seeding",
        "_file_log",
        '"batchId": 0 if n == last else -1',
        '"batchId": n',
        "After Spark has compacted its log of a seeded file source, the next start reads its files a second time.",
        ("tests/spark/test_seeding.py::test_a_file_source",),
    ),
    Mutant(
        "poisoned-links-report-their-changes",
        "state_engine.spark.chain",
        "Chain.end",
        "            for link in self._links:\n                link.poison(failure)",
        "            pass",
        "The acks of a chain in which one operator failed do not say so.",
        (
            "tests/spark/test_subtask_of_a_chain.py::test_a_failure_in_the_middle_poisons_the_others_and_the_next_attempt_starts_right",
        ),
    ),
    Mutant(
        "rows-without-a-record-skip-the-chain",
        "state_engine.spark.chain",
        "Chain._step",
        "self._hand_on(n + 1, self._links[n].run(step))",
        "self._hand_on(len(self._links), self._links[n].run(step))",
        "Rows that an operator gives at a timer, or at the end, skip the operators that are chained to it.",
        (f"{CHAIN}::test_what_a_link_gives_without_a_record_goes_through_all_links_behind_it",),
    ),
    Mutant(
        "barrier-of-the-first-reader-only",
        "state_engine.spark.handover",
        "Handover.marks",
        "control * len(self.outputs)",
        "control[:1] * len(each)",
        "Every subtask of an operator gets the full barrier, and acks count several times.",
        ("tests/spark/test_handover.py::test_every_output_has_a_barrier_for_every_subtask_of_its_readers",),
    ),
    Mutant(
        "the-fence-of-another-log-says-what-was-paid",
        "state_engine.spark.sink_commits",
        "SinkCommits._holds",
        "found.birth not in (None, birth_number(birth))",
        "found.birth == -1",
        "A table refused an epoch since another log writes it; the sink moves, and the epoch is in neither table.",
        ("tests/sinks/test_adopted_sinks.py::test_what_a_table_refused_is_not_forgotten_when_the_sink_moves",),
    ),
)
