"""The profile for a cluster, tested on a one-node SLURM that runs on this machine during the tests.

Needs root and Debian's packages slurm-wlm and munge. The GPUs of the node are device files without a
device; what runs on them is the measure job of :mod:`tests.project`. The node has as many GPUs as there
are tests, which use the cluster at the same time: they spend most of theirs waiting for it.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from spmm_roofline import contracts
from tests.project import Project
from tests.test_faults import MEASURED, asked, cases, measure_again, wait_for

CONFIGURATION = Path("/etc/slurm/slurm.conf")
#: Seconds; a measure job has the node to itself, so that a story waits for the others' jobs.
WAIT = 400

#: First line of a configuration that is the tests' own: another run's, or what a killed one left.
OURS = "# Written by the tests of spmm-roofline.\n"
SLURM_CONF = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MinJobAge=600
# Seconds from the signal that ends a job to the one that kills it.
KillWait=2
DefMemPerCPU=100
ReturnToService=2
SlurmdParameters=config_overrides
MailProg=/bin/true
MpiDefault=none
SchedulerParameters=sched_interval=1,batch_sched_delay=0
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=64000 Gres=gpu:h200:{gpus}
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE
PartitionName=gpu Nodes={host} MaxTime=INFINITE
"""


def reason_to_skip():
    if os.geteuid() != 0:
        return "a SLURM of one node needs root"
    missing = [name for name in ("slurmctld", "slurmd", "sbatch", "squeue") if not shutil.which(name, path=PATH)]
    if missing:
        return f"there is no {missing[0]}: install Debian's packages slurm-wlm and munge"
    if CONFIGURATION.exists() and not CONFIGURATION.read_text().startswith(OURS):
        return f"this machine has a SLURM of its own: {CONFIGURATION}"
    return ""


PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
pytestmark = [
    pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip() or "none"),
    pytest.mark.xdist_group("slurm"),
    pytest.mark.timeout(1200),  # a run may wait for another one's turn
]


def slurm(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def turn():
    """The machine has one configuration of SLURM: two runs of these tests take turns."""
    with FileLock(Path(tempfile.gettempdir()) / "spmm-roofline-slurm.lock"):
        yield


@pytest.fixture(scope="module")
def cluster(turn, tmp_path_factory):
    """A one-node SLURM with a CPU and a GPU partition."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    for number in range(len(STORIES)):
        os.mknod(folder / f"gpu{number}", 0o20666, os.makedev(1, 3))
    CONFIGURATION.parent.mkdir(exist_ok=True)
    host = socket.gethostname().split(".")[0]
    # Jobs find the configuration only at its default path, because their steps drop every SLURM_* variable.
    sizes = {"cpus": 2 * len(STORIES), "gpus": len(STORIES)}
    CONFIGURATION.write_text(OURS + SLURM_CONF.format(host=host, folder=folder, **sizes))
    gres = CONFIGURATION.with_name("gres.conf")
    gres.write_text(f"Name=gpu Type=h200 File={folder}/gpu[0-{len(STORIES) - 1}]\n")
    daemons = []
    try:
        for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D"]):
            daemons.append(subprocess.Popen([shutil.which(command[0], path=PATH), *command[1:]]))
        wait_for(lambda: "idle" in subprocess.run(["sinfo", "-h"], capture_output=True, text=True).stdout, 60)
        yield folder
    finally:
        subprocess.run(["scancel", "--full", "--user=root"], check=False)
        time.sleep(1)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)
        CONFIGURATION.unlink()
        gres.unlink()


#: Options for a cluster without accounting; the queue is polled often, because the jobs take seconds.
HERE = ("--slurm-no-account", "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2")
PROFILE = ("--workflow-profile", "profiles/slurm", "--latency-wait", "10", "--seconds-between-status-checks", "2")


def start(project, *targets):
    return project.start(*targets, *PROFILE, *HERE)


def finish(process):
    output, _ = process.communicate(timeout=WAIT)
    return process.returncode, output


def jobs_of(project):
    """What SLURM tells of each job of a project, a line a job."""
    jobs = slurm("scontrol", "show", "job", "--oneliner").splitlines()
    return [job for job in jobs if f"WorkDir={project.root} " in f"{job} "]


def measuring(project):
    """Id of the running job that measures."""
    for job in jobs_of(project):
        if "JobState=RUNNING" in job and "measure_tiny" in job:
            return re.search(r"JobId=(\d+)", job)[1]
    raise AssertionError(jobs_of(project))


def cpu_stages_and_measurements_run_where_they_belong(project):
    measure_again(project, "mma_t", "cusparse_csr")
    for name in ("results/formats/csr/mesh.json", "results/kernels/sm_90a/mma_t.cubin"):
        (project.root / name).unlink()
    code, output = finish(start(project, "measure"))
    assert code == 0, output[-4000:]
    assert project.jobs("measure") == set()
    jobs = jobs_of(project)
    measured = [job for job in jobs if "measure_tiny" in job]
    packed = [job for job in jobs if "pack_formats" in job or "compile_kernels" in job]
    assert len(packed) == 2 and all("Partition=cpu" in job and "gpu" not in job for job in packed), jobs
    assert measured and all("Partition=gpu" in job and "gpu:h200:1" in job for job in measured), jobs
    assert all(re.search(r"OverSubscribe=NO\b", job) for job in measured), jobs


def a_job_that_is_cancelled_and_one_that_fails_cost_a_matrix(project):
    measure_again(project, "mma_t", "mma_bt", "mma_cbt")
    project.act(**{"mma_bt band 8": "wait"})
    process = start(project, "measure", "--retries", "0")
    journal = project.root / MEASURED / ".mma_cbt.journal"
    wait_for(lambda: asked(project, "band 8", "mma_bt") and "mesh" in journal.read_text(), WAIT)
    slurm("scancel", measuring(project))
    code, output = finish(process)
    assert code != 0 and "measure_tiny_new_0 failed" in output, output[-4000:]
    assert sorted(cases(project)) == ["band 8"] * 2 + ["mesh 8"] * 3
    project.act(**{"mma_cbt band 8": "wrong"})
    code, output = finish(start(project, "measure", "--retries", "0"))
    assert code != 0 and "1 of 6 cases are wrong" in output, output[-4000:]
    # The row of mma_t went with the job, because no canary had followed it.
    assert cases(project) == ["band 8"] * 3
    project.act()
    code, output = finish(start(project, "measure"))
    assert code == 0, output[-4000:]
    assert cases(project) == ["band 8"] and project.jobs("measure") == set()


def a_job_that_is_requeued_goes_on_where_it_was(project):
    measure_again(project, "mma_bt")
    project.act(**{"mma_bt band 8": "wait"})
    process = start(project, "measure")
    journal = project.root / MEASURED / ".mma_bt.journal"
    wait_for(lambda: asked(project, "band 8", "mma_bt") and "mesh" in journal.read_text(), WAIT)
    job = measuring(project)
    slurm("scontrol", "requeue", job)
    # SLURM delays a requeued job by two minutes, so that its node can recover.
    wait_for(lambda: "JobState=PENDING" in slurm("scontrol", "show", "job", job))
    project.calls()
    project.act()
    slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
    code, output = finish(process)
    assert code == 0, output[-4000:]
    assert "Restarts=1" in slurm("scontrol", "show", "job", job)
    assert cases(project) == ["band 8"]
    rows = contracts.read(project.root / MEASURED / "mma_bt.csv", "measure")
    assert (rows.status == "ok").all() and len(rows) == 2


STORIES = [
    cpu_stages_and_measurements_run_where_they_belong,
    a_job_that_is_cancelled_and_one_that_fails_cost_a_matrix,
    a_job_that_is_requeued_goes_on_where_it_was,
]


@pytest.fixture(scope="module")
def told(cluster, finished_project, tmp_path_factory):
    """The stories, all under way, each with a project of its own."""
    with ThreadPoolExecutor(len(STORIES)) as pool:
        under_way = {}
        for story in STORIES:
            own = tmp_path_factory.mktemp("story") / "project"
            shutil.copytree(finished_project.root, own)
            project = Project(own)
            project.calls()
            under_way[story] = pool.submit(story, project)
        yield under_way


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_on_the_cluster(told, story):
    told[story].result()
