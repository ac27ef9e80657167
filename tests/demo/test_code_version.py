"""The code version of a job changes with its code, its plan and its distribution, and with nothing else."""

import sys
import textwrap

import pytest

from lakestate.code_version import _told, code_version_of, digest_of
from state_engine.errors import JobDefinitionError

JOB = """
    from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor

    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield value.k, self.count.value()

    def build(spark, root, options):
        from state_engine.spark import StreamJob
        job = StreamJob("shop", root=root, parallelism=2)
        stream = job.from_stream(spark.readStream.schema("k string").parquet(options["input"]))
        stream.key_by("k").process(Count(), "k string, n bigint", uid="count")
        return job
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a distribution with the job `shop`; returns a function that changes it."""

    def install(code=JOB, version="1"):
        package = tmp_path / "shop_jobs"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        (package / "shop.py").write_text(textwrap.dedent(code))
        for old in tmp_path.glob("*.dist-info"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        information = tmp_path / f"shop-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: shop\nVersion: {version}\n")
        (information / "entry_points.txt").write_text("[lakestate.jobs]\nshop = shop_jobs.shop:build\n")

    install()
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *filter(None, sys.path)]))
    return install


@pytest.fixture(autouse=True)
def _forgotten():
    _told.cache_clear()


def version():
    """Returns the version that a new process would compute."""
    _told.cache_clear()
    return code_version_of("shop")


@pytest.mark.slow
def test_it_is_the_same_until_the_code_changes(installed):
    first = version()
    assert first is not None
    assert len(first) == 12
    assert version() == first
    installed(JOB.replace("+ 1", "+ 2"))
    second = version()
    installed(version="2")
    third = version()
    installed()
    assert version() == first
    assert len({first, second, third}) == 3


@pytest.mark.slow
def test_it_is_remembered_for_the_life_of_a_process(installed):
    first = code_version_of("shop")
    installed(version="2")
    assert code_version_of("shop") == first


@pytest.mark.slow
def test_code_that_cannot_be_imported_does_no_harm(installed):
    installed("import nowhere_to_be_found")
    assert version() is None


@pytest.mark.slow
def test_what_a_job_prints_is_no_part_of_it(installed):
    installed(JOB + "\n    print('hello')\n")
    said = version()
    assert said is not None
    assert len(said) == 12


@pytest.mark.slow
def test_the_caller_imports_neither_the_job_nor_spark():
    import subprocess

    code = (
        "import sys; from lakestate.code_version import code_version_of; assert code_version_of('flights');\n"
        "assert not {name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j'}\n"
        "assert 'lakestate.examples.flights.job' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_job_that_is_not_registered_has_none():
    with pytest.raises(JobDefinitionError):
        digest_of("nobody")
