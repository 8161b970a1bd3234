"""Scores the rows of many files on Apache Beam."""

import contextlib
import dataclasses
import difflib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from typing import Any

import apache_beam as beam
from apache_beam.io.fileio import MatchFiles, ReadableFile, ReadMatches
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import create_runner
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from adapter_bert_tf.bulk.columns import Values, new_names
from adapter_bert_tf.bulk.form import Form
from adapter_bert_tf.bulk.rows import Bad, Reader, Row, by_length
from adapter_bert_tf.entry import prepare_tensorflow
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import MOST_OF_DATA, is_remote, refuse_special

# Beam's own DirectRunner first tries to fetch a program from GitHub, and ends up with this one.
_RUNNERS = {"DirectRunner": "FnApiRunner"}
# Rows of a worker among which those of similar lengths are found.
_TOGETHER = 4096
_BAD = "bad"

# It warns if there is no bad row.
logging.getLogger("apache_beam.io.filebasedsink").setLevel(logging.ERROR)


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be scored.

    Args:
      input: Pattern of the files.
      output: Path of the output without its ending; the numbers of the shards follow it.
      ending: Its ending.
      form: How rows are written.
      reader: Reads the files.
      export_dir: The export.
      task: Name of the task in it.
      batch_size: Rows that are computed together.
      num_shards: Files that are written; 0 leaves it to the runner.
      columns: The columns of a file; `prepare_job` finds them.
    """

    input: str
    output: str
    ending: str
    form: Form
    reader: Reader
    export_dir: str
    task: str
    batch_size: int = 64
    num_shards: int = 0
    columns: tuple[str, ...] = ()

    @property
    def bad_file(self) -> str:
        """The file of what can't be scored."""
        return f"{self.output}-{_BAD}.jsonl"


@dataclasses.dataclass(frozen=True)
class Counts:
    """How many rows were scored, and how many rows and files could not be."""

    scored: int
    bad: int


def check_options(runner: str, given: Iterable[str]) -> list[str]:
    """Returns the options of Beam as it takes them, and refuses those that it does not know.

    Args:
      runner: Name of the runner.
      given: `name=value` each.
    """
    options = [_as_flag(option) for option in given]
    try:
        create_runner(_RUNNERS.get(runner, runner))
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"--runner={runner}: {first_line(error)}") from None
    return [f"--runner={_RUNNERS.get(runner, runner)}", *options]


def _as_flag(option: str) -> str:
    """Returns an option as Beam's own command line takes it."""
    known = PipelineOptions([]).get_all_options()
    name, equals, value = option.partition("=")
    if name not in known or not equals:
        near = " or ".join(difflib.get_close_matches(name, known)) or "NAME=VALUE"
        raise UserError(f"--beam_option={option}: unknown to Beam; expected {near}")
    # Beam has switches without a value, of which some are on by default.
    is_switch = isinstance(known[name], bool)
    if is_switch and value not in ("true", "false"):
        raise UserError(f"--beam_option={option}: expected true or false")
    flag = f"--{name if value == 'true' else f'no_{name}'}" if is_switch else f"--{option}"
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            found = PipelineOptions([flag]).get_all_options()[name]
    except SystemExit:
        raise UserError(f"--beam_option={option}: a value that Beam does not take") from None
    if is_switch and found != (value == "true"):
        raise UserError(f"--beam_option={option}: Beam can't change it")
    return flag


def prepare_job(job: Job) -> Job:
    """Returns the job with the columns of its smallest file, after checks of input and output."""
    job = dataclasses.replace(job, input=_absolute(job.input), output=_absolute(job.output))
    for pattern in (f"{job.output}-*-of-*{job.ending}", job.bad_file):
        for path in _match("output", pattern):
            raise UserError(f"--output: {path} exists, and is not overwritten")
    found = _match("input", job.input)
    if not found:
        raise UserError(f"--input={job.input}: no such file")
    # A file that is empty is a bad one, and says nothing about the others.
    first = next((path for path, size in found.items() if size), None)
    if first is None:
        raise UserError(f"--input={job.input}: all files are empty")
    with FileSystems.open(first) as file:
        table, _ = job.reader.open(first, file.read(), [])
    # The lines of a CSV all have the same columns.
    alike = None if job.form.delimiter is None else table.columns
    reader = dataclasses.replace(job.reader, columns=alike)
    return dataclasses.replace(job, columns=table.columns, reader=reader)


def _absolute(path: str) -> str:
    """Returns where a path is: Beam finds nothing by a pattern without a folder."""
    return path if "://" in path else os.path.abspath(path)


def _match(flag: str, pattern: str) -> dict[str, int]:
    """Returns the files that match, the smallest one first, and their sizes."""
    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except (BeamIOError, ValueError) as error:
        raise UserError(f"--{flag}={pattern}: {first_line(error)}") from None
    sizes = {each.path: each.size_in_bytes for each in found}
    return dict(sorted(sizes.items(), key=lambda each: (each[1], each[0])))


def run_job(job: Job, options: Sequence[str]) -> Counts:
    """Scores the files.

    Args:
      job: What is to be scored.
      options: Options of Beam, as on its command line.
    """
    from adapter_bert_tf.bulk.scorer import column_names

    added = column_names(job.reader.pack)
    _remove_leftovers(job)
    pipeline = beam.Pipeline(options=PipelineOptions(list(options)))
    _build(pipeline, job, [*job.columns, *new_names(added, job.columns)])
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except Exception as error:  # Beam has logged its own errors, and each runner has others.
        _remove_leftovers(job)
        raise UserError(f"Beam: {first_line(error)}; the same command starts again") from None
    counters = result.metrics().query()["counters"]
    found = {each.key.metric.name: each.result for each in counters}
    return Counts(found.get("scored", 0), found.get(_BAD, 0))


def _remove_leftovers(job: Job) -> None:
    """Removes what a job with this output left when it was killed. Finished jobs leave nothing."""
    folder, name = FileSystems.split(job.output)
    pattern = FileSystems.join(folder, f"beam-temp-{name}-*")
    # Beam finds files only, and an empty folder is a leftover too where there are folders.
    found = {os.path.dirname(path) for path in _match("output", f"{pattern}/*")} | set(
        glob(pattern)
    )
    ours = rf"beam-temp-{re.escape(name)}(-{_BAD}\.jsonl)?-[0-9a-f]{{32}}"
    FileSystems.delete(
        [path for path in sorted(found) if re.fullmatch(ours, os.path.basename(path))]
    )


def _build(pipeline: beam.Pipeline, job: Job, names: Sequence[str]) -> None:
    """Lays out the steps, from files to files.

    Args:
      pipeline: Gets the steps.
      job: What is to be scored.
      names: The columns of the output.
    """
    read = (
        pipeline
        | MatchFiles(job.input)
        | ReadMatches()
        | beam.ParDo(_Read(job.reader)).with_outputs(_BAD, main="rows")
    )
    _ = (
        read.rows
        # So that the rows of a file go to all workers, and are not read again if scoring fails.
        | beam.Reshuffle()
        | beam.ParDo(_Score(job))
        | "To lines" >> beam.Map(lambda row: job.form.line(names, row))
        | "Write"
        >> beam.io.WriteToText(
            job.output, job.ending, num_shards=job.num_shards, header=job.form.header(names)
        )
    )
    _ = (
        read[_BAD]
        | "Bad to lines" >> beam.Map(lambda bad: Form(None).line((), dataclasses.asdict(bad)))
        | "Write bad"
        >> beam.io.WriteToText(
            job.bad_file, num_shards=1, shard_name_template="", skip_if_empty=True
        )
    )


class _Read(beam.DoFn):
    """From files to rows."""

    def __init__(self, reader: Reader):
        self._reader = reader
        self._bad = Metrics.counter(__name__, _BAD)

    def process(self, file: ReadableFile) -> Iterator[Any]:
        for row in self._rows(file.metadata.path, file):
            if isinstance(row, Bad):
                self._bad.inc()
                yield beam.pvalue.TaggedOutput(_BAD, row)
            else:
                yield row

    def _rows(self, path: str, file: ReadableFile) -> Iterable[Row | Bad]:
        size = file.metadata.size_in_bytes
        if size > MOST_OF_DATA:
            return [Bad(path, None, f"has {size:,} bytes; expected {MOST_OF_DATA:,} at most")]
        try:
            if not is_remote(path):
                refuse_special(path)
        except UserError as error:
            return [Bad(path, None, str(error).removeprefix(f"{path}: "))]
        return self._reader.read(path, file.read())


class _Score(beam.DoFn):
    """From rows to rows with predictions. All threads of a worker share one export."""

    def __init__(self, job: Job):
        self._job, self._shared = job, Shared()
        self._scored = Metrics.counter(__name__, "scored")
        self._waiting: list[Row] = []

    def setup(self) -> None:
        def load() -> Any:
            prepare_tensorflow()
            # Imported here, because it needs TensorFlow.
            from adapter_bert_tf.bulk.scorer import Scorer

            return Scorer(self._job.export_dir, self._job.task, self._job.reader.pack)

        self._score = self._shared.acquire(load)

    def start_bundle(self) -> None:
        self._waiting = []

    def process(self, row: Row) -> Iterator[Values]:
        self._waiting.append(row)
        if len(self._waiting) == _TOGETHER:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        for row in self._flush():
            yield WindowedValue(row, window.end, (window,))

    def _flush(self) -> Iterable[Values]:
        rows, self._waiting = self._waiting, []
        for batch in by_length(rows, self._job.batch_size):
            columns = self._score(batch)
            self._scored.inc(len(batch))
            for row, cells in zip(batch, zip(*columns.values(), strict=True), strict=True):
                names = new_names(columns, {*self._job.columns, *row.values})
                yield {**row.values, **dict(zip(names, cells, strict=True))}
