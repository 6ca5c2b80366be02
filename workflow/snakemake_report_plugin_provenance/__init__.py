"""Plugin of Snakemake: ``snakemake --reporter provenance`` describes a finished run as an RO-Crate.

Snakemake finds plugins by the name of their package, which is why this one lies beside ``spmm_roofline``.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_report_plugins.reporter import ReporterBase
from snakemake_interface_report_plugins.settings import ReportSettingsBase


class ReportSettings(ReportSettingsBase):
    """There is nothing to set: the description of a crate lies in the root of the crate, the working folder."""


class Reporter(ReporterBase):
    """Describes the run whose jobs Snakemake reports."""

    def render(self) -> None:
        """Write ``ro-crate-metadata.json`` into the working folder."""
        if find_spec("rocrate") is None:
            raise WorkflowError('describing a run needs one more package: pip install "spmm-roofline[provenance]"')
        # Snakemake imports every plugin at its start; only this one pays for the library.
        import snakemake

        from spmm_roofline import folder
        from spmm_roofline.report import crate

        jobs = [
            crate.Job(
                tool=Path(record.job.rule.script).stem,
                rule=record.job.rule.name,
                started=record.starttime,
                ended=record.endtime,
                inputs=tuple(file for file in map(str, record.job.input) if file != str(folder.FAILED)),
                outputs=tuple(map(str, record.job.output)),
            )
            for record in self.jobs
            if record.job.rule.script
        ]
        if not jobs:
            raise WorkflowError("no job of this run has left its files: run `snakemake report` first")
        snakefile = self.jobs[0].job.rule.workflow.main_snakefile
        print(f"wrote {crate.write(jobs, snakefile, snakemake.__version__)}")
