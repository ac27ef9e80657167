"""Checks of a savepoint, in the run that takes it: a savepoint counts once all blocking checks have passed.

`state_engine.savepoint.validate_savepoint` reads and validates; here its findings are sorted into checks by name.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from lakestate.assets.names import savepoint_key
from lakestate.job_code import operators_of_code
from state_engine.savepoint import ValidationReport, validate_savepoint
from state_engine.savepoint.fitness import Fitness, fitness
from state_engine.savepoint.validate import Aspect

COMPLETE = "complete"
CHECKSUMS = "checksums"
KEY_GROUPS = "keys_in_their_key_groups"
ROW_COUNTS = "row_counts"
READABLE = "readable_by_current_code"

_SHOWN = 20
_ABOUT: dict[str, tuple[frozenset[Aspect], str]] = {
    COMPLETE: (frozenset({"files", "key groups"}), "Every key group, and every file that a restore reads, exists."),
    CHECKSUMS: (frozenset({"checksums"}), "Every file has the bytes that were written."),
    KEY_GROUPS: (frozenset({"keys"}), "Every key is in the key group of its hash."),
    ROW_COUNTS: (frozenset({"rows"}), "Files have the number of rows that the savepoint records."),
}
_READABLE = "The current code of the job can resume from it, and reads everything that the former code read."


def savepoint_checks(job: str) -> list[dg.AssetCheckSpec]:
    """Returns the checks of `<job>/savepoint`.

    Damage blocks: the run fails, and the savepoint does not count. If the current code does not fit, that is only a
    warning, since the former code can still restore the savepoint.
    """
    key = savepoint_key(job)
    damage = [
        dg.AssetCheckSpec(name, asset=key, blocking=True, description=wanted) for name, (_, wanted) in _ABOUT.items()
    ]
    return [*damage, dg.AssetCheckSpec(READABLE, asset=key, description=_READABLE)]


def check_savepoint(
    root: str, job: str, savepoint_id: str, *, key: dg.AssetKey | None = None
) -> list[dg.AssetCheckResult]:
    """Reads all of a savepoint, and checks without Spark whether the code of a registered job fits it.

    Args:
        root: Where jobs store their state.
        job: Name of the job.
        savepoint_id: Id of the savepoint.
        key: Key of the savepoints of the job; by default `<job>/savepoint`.

    Raises:
        NothingToRestoreError: There is no such savepoint.
    """
    report = validate_savepoint(root, job, savepoint_id)
    code = fitness(root, job, savepoint_id, operators_of_code(job, root)) if report.ok else None
    return evaluate(job, report, code, key=key)


def evaluate(
    job: str, report: ValidationReport, code: Fitness | None, *, key: dg.AssetKey | None = None
) -> list[dg.AssetCheckResult]:
    """Returns the result of every check of `savepoint_checks`.

    Args:
        job: Name of the job.
        report: What is wrong with the savepoint.
        code: How the current code fits it; None if the code was not checked.
        key: Key of the savepoints of the job; by default `<job>/savepoint`.
    """
    key = key or savepoint_key(job)
    return [*_damage(key, report), _readable(key, report, code)]


def _damage(key: dg.AssetKey, report: ValidationReport) -> Iterator[dg.AssetCheckResult]:
    for name, (aspects, wanted) in _ABOUT.items():
        findings = [finding for finding in report.findings if finding.about in aspects]
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=not findings,
            severity=dg.AssetCheckSeverity.ERROR,
            description=f"{len(findings)} findings; the first: {findings[0]}" if findings else wanted,
            metadata={
                "savepoint_id": report.savepoint_id,
                "kind": report.kind,
                "files": report.files,
                "rows": report.rows,
                "findings": _table([(finding.path, finding.problem) for finding in findings]),
            },
        )


def _readable(key: dg.AssetKey, report: ValidationReport, code: Fitness | None) -> dg.AssetCheckResult:
    """Returns the check of the current code; state that the former code did not read either is listed only."""
    reasons = code.refusals if code is not None else ()
    unread = code.unread if code is not None else ()
    lost = [one for one in unread if not one.before]
    if reasons:
        description = f"{reasons[0].error}: {reasons[0].message} {reasons[0].action}"
    elif lost:
        description = f"The current code of the job can resume from it, but does not read {lost[0]}."
    elif code is not None:
        description = _READABLE
    elif not report.ok:
        description = "The savepoint is damaged; the code was not checked."
    else:
        description = "Not checked: the job is not registered here, or only Spark knows what its code declares."
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=READABLE,
        passed=report.ok and not reasons and not lost,
        severity=dg.AssetCheckSeverity.WARN,
        description=description,
        metadata={
            "savepoint_id": report.savepoint_id,
            "code_was_asked": code is not None,
            "findings": _table(
                [
                    *((reason.error, f"{reason.message} {reason.action}") for reason in reasons),
                    *(("not read", str(one)) for one in unread),
                ]
            ),
        },
    )


def _table(found: Sequence[tuple[str, str]]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [dg.TableRecord({"what": what, "problem": problem}) for what, problem in found[:_SHOWN]],
        schema=dg.TableSchema([dg.TableColumn("what", "string"), dg.TableColumn("problem", "string")]),
    )


__all__ = ["READABLE", "check_savepoint", "evaluate", "savepoint_checks"]
