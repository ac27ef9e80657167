"""What is checked about a savepoint, in the run that takes it: a savepoint counts once all that blocks has passed.

`state_engine.savepoint.validate_savepoint` reads and judges; here its findings are sorted into checks by name.
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
    COMPLETE: (frozenset({"files", "key groups"}), "Every key group, and every file that a restore reads, is there."),
    CHECKSUMS: (frozenset({"checksums"}), "Every file has the bytes that were written."),
    KEY_GROUPS: (frozenset({"keys"}), "Every key is in the key group that its hash says."),
    ROW_COUNTS: (frozenset({"rows"}), "Files hold as many rows as the savepoint says."),
}
_READABLE = "The job's present code can go on from it, and reads all that the code before read."


def savepoint_checks(job: str) -> list[dg.AssetCheckSpec]:
    """Returns the checks of `<job>/savepoint`.

    Damage blocks: the run fails, and the savepoint does not count. That the present code does not fit is a warning: a
    savepoint of the code before is as good as ever.
    """
    key = savepoint_key(job)
    damage = [
        dg.AssetCheckSpec(name, asset=key, blocking=True, description=wanted) for name, (_, wanted) in _ABOUT.items()
    ]
    return [*damage, dg.AssetCheckSpec(READABLE, asset=key, description=_READABLE)]


def check_savepoint(root: str, job: str, savepoint_id: str) -> list[dg.AssetCheckResult]:
    """Reads all of a savepoint, and asks the code of a registered job, without Spark, whether it fits.

    Raises:
        NothingToRestoreError: There is no such savepoint.
    """
    report = validate_savepoint(root, job, savepoint_id)
    code = fitness(root, job, savepoint_id, operators_of_code(job, root)) if report.ok else None
    return evaluate(job, report, code)


def evaluate(job: str, report: ValidationReport, code: Fitness | None) -> list[dg.AssetCheckResult]:
    """Returns the result of every check of `savepoint_checks`.

    Args:
        job: Name of the job.
        report: What is wrong with the savepoint.
        code: How the present code fits it; None where nobody asked it.
    """
    return [*_damage(job, report), _readable(job, report, code)]


def _damage(job: str, report: ValidationReport) -> Iterator[dg.AssetCheckResult]:
    for name, (aspects, wanted) in _ABOUT.items():
        found = [finding for finding in report.findings if finding.about in aspects]
        yield dg.AssetCheckResult(
            asset_key=savepoint_key(job),
            check_name=name,
            passed=not found,
            severity=dg.AssetCheckSeverity.ERROR,
            description=f"{len(found)} findings; the first: {found[0]}" if found else wanted,
            metadata={
                "savepoint_id": report.savepoint_id,
                "kind": report.kind,
                "files": report.files,
                "rows": report.rows,
                "findings": _table([(finding.path, finding.problem) for finding in found]),
            },
        )


def _readable(job: str, report: ValidationReport, code: Fitness | None) -> dg.AssetCheckResult:
    """What the release that took the savepoint did not read either is told, and no warning."""
    reasons = code.refusals if code is not None else ()
    unread = code.unread if code is not None else ()
    lost = [one for one in unread if not one.before]
    if reasons:
        said = f"{reasons[0].error}: {reasons[0].message} {reasons[0].action}"
    elif lost:
        said = f"The job's present code can go on from it, and does not read {lost[0]}."
    elif code is not None:
        said = _READABLE
    elif not report.ok:
        said = "The savepoint is damaged; its code was not asked."
    else:
        said = "Not asked: the job is not registered here, or only Spark knows what its code declares."
    return dg.AssetCheckResult(
        asset_key=savepoint_key(job),
        check_name=READABLE,
        passed=report.ok and not reasons and not lost,
        severity=dg.AssetCheckSeverity.WARN,
        description=said,
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
