"""A Slurm of two nodes on this machine, for one test. It needs root, Slurm, munge and iproute2, but neither systemd nor a
configuration.

environment: TASK_PLUGIN (default: task/none), PROCTRACK_TYPE (default: proctrack/linuxproc), of Slurm

enter() starts the script again as the only user of new namespaces: of processes, mounts, the network, and names. There /run is
an empty file system in memory, which holds all files, and two nodes are joined to the controller by a bridge. Each node has a
host name, a network and a /dev/shm of its own. Whatever ends the script, the kernel then ends all processes and takes away the
files, the mounts and the networks. No port or path is shared with another instance or with a Slurm of this machine.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

INSIDE = "OCTET_SLURM_NAMESPACES"
NAMESPACES = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net", "--uts", "--ipc"]
PROGRAMS = ["slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "munged", "ip", "unshare", "nsenter", "setpriv"]
FOLDER = pathlib.Path("/run/cluster")
NODES = {"n1": "10.77.0.11", "n2": "10.77.0.12"}
TASK, PROCTRACK = os.environ.get("TASK_PLUGIN", "task/none"), os.environ.get("PROCTRACK_TYPE", "proctrack/linuxproc")
SECONDS = 90  # a wait that takes longer fails; on quiet cores each takes a few

SET_UP = """set -e
mount -t tmpfs tmpfs /run
hostname controller
printf '%s\\n' '127.0.0.1 localhost' '10.77.0.1 controller' '10.77.0.11 n1' '10.77.0.12 n2' > /run/hosts
mount --bind /run/hosts /etc/hosts
ip link set lo up
ip link add br0 type bridge
ip addr add 10.77.0.1/24 dev br0
ip link set br0 up
ip link add probe1 type veth peer name probe2
ip link del probe1
"""
# The first process also takes in the orphans, which a Python program would leave as zombies.
FIRST_PROCESS = SET_UP + '"$@" & wait $!'
NODE = """set -e
hostname "$1"
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
ip link add eth0 type veth peer name "to-$1" netns 1
nsenter --target 1 --net ip link set "to-$1" master br0 up
ip addr add "$2/24" dev eth0
ip link set eth0 up
echo up
exec sleep infinity
"""

# JobRequeue: the script has to ask for it. TmpFS, SlurmdSpoolDir: the nodes share a file system. config_overrides: more cores
# than the machine has. cred_expire: a requeued job waits as long before it starts again; the default is two minutes.
# MinJobAge: ended jobs are still shown; by default for five minutes.
CONFIGURATION = """ClusterName=test
SlurmctldHost=controller(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=6
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType={proctrack}
TaskPlugin={task}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{parameters}
SlurmdParameters=config_overrides
KillWait=8
MinJobAge=7200
JobRequeue=0
{nodes}
PartitionName=batch Nodes=ALL Default=YES PriorityTier=1 PreemptMode=OFF
PartitionName=grace0 Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=grace20 Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=ended Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=0
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""


def missing():
    """Why there can be no cluster on this machine; '' if there can."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"{', '.join(absent)} not found; launch/setup.sh --slurm installs Slurm and munge"
    if os.getuid() != 0:
        return "Slurm's daemons and namespaces need root"
    probe = subprocess.run([*NAMESPACES, "sh", "-c", SET_UP], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if probe.returncode != 0:
        return f"no right to make namespaces, a container needs --privileged: {probe.stderr.strip()}"
    return ""


def enter():
    """Does not return, unless this is already inside."""
    if INSIDE not in os.environ:
        kept = {name: value for name, value in os.environ.items() if not re.match("SLURM|SBATCH|SRUN|SCANCEL|MUNGE", name)}
        command = ["setpriv", "--pdeathsig", "KILL", *NAMESPACES, "sh", "-c", FIRST_PROCESS, "sh", sys.executable]
        sys.exit(subprocess.call([*command, *sys.argv], env={**kept, INSIDE: "1", "TMPDIR": "/run"}))


def wait_until(condition, what, pause=0.02, seconds=SECONDS):
    """Returns the first value of condition() that counts as true. what() describes the failure."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come within {seconds} s: {what()}")
        time.sleep(pause)
    return value


class Cluster:
    def __init__(self, task=TASK, cores=64):
        self.task, self.cores = task, cores
        for folder in ["state", *(f"{kind}/{node}" for kind in ("spool", "tmp") for node in NODES)]:
            (FOLDER / folder).mkdir(parents=True)
        self.write_configuration()
        # Nothing here uses control groups. The other plugin refuses some of the ways in which machines mount them.
        (FOLDER / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        os.environ["SLURM_CONF"] = str(FOLDER / "slurm.conf")
        key = FOLDER / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        self.daemons = {}
        self.start("munged", "munged", "--foreground", "--force", f"--socket={FOLDER}/munge.socket", f"--key-file={key}",
                   f"--pid-file={FOLDER}/munged.pid", f"--log-file={FOLDER}/munged.log", f"--seed-file={FOLDER}/munge.seed")
        self.wait_for("munge to answer", ["munge", "-n", "-S", f"{FOLDER}/munge.socket"])
        self.start("slurmctld", "slurmctld", "-D", "-c")
        self.holders = {}  # processes that keep the namespaces of a node
        for node, address in NODES.items():
            self.holders[node] = subprocess.Popen(["unshare", "--mount", "--net", "--uts", "--ipc", "sh", "-c", NODE, "sh", node,
                                                   address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            self.holders[node].stdout.readline()
            self.start_node(node)
        self.wait_for("two idle nodes", ["sh", "-c", "test $(sinfo -h -N -p batch -t idle -o %N | wc -l) = 2"])

    def write_configuration(self, parameters=""):
        nodes = "\n".join(f"NodeName={node} NodeAddr={address} CPUs={self.cores} CoresPerSocket={self.cores}"
                          for node, address in NODES.items())
        (FOLDER / "slurm.conf").write_text(CONFIGURATION.format(folder=FOLDER, nodes=nodes, task=self.task, proctrack=PROCTRACK,
                                                                parameters=parameters and f"SlurmctldParameters={parameters}"))

    def configure(self, parameters=""):
        """Sets SlurmctldParameters, which are empty by default."""
        self.write_configuration(parameters)
        subprocess.run(["scontrol", "reconfigure"], check=True)

    def start(self, name, *command):
        with open(FOLDER / f"{name}.log", "wb") as log:
            self.daemons[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_node(self, node, *options):
        """Its slurmd."""
        self.start(f"slurmd-{node}", "nsenter", f"--target={self.holders[node].pid}", "--mount", "--net", "--uts", "--ipc",
                   "slurmd", "-D", "-N", node, *options)

    def boot_node(self, node):
        """Its slurmd after a kill_node(). The controller counts whole seconds, and believes in a boot only in a later one than that
        of the node's last answer."""
        time.sleep(1.1)
        self.start_node(node, "-b")

    def kill_node(self, node):
        """SIGKILL to its slurmd and all that this has started, as when the node loses power. Its files stay."""
        def host(process):
            return os.readlink(f"/proc/{process}/ns/uts")
        holder = self.holders[node].pid
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has just ended
                if int(path.name) != holder and host(path.name) == host(holder):
                    os.kill(int(path.name), signal.SIGKILL)
        self.daemons.pop(f"slurmd-{node}").wait()

    def wait_for(self, what, command):
        def done():
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            if ended:
                raise AssertionError(f"{ended[0]} ended while the cluster waited for {what}:\n{self.logs()}")
            return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        wait_until(done, lambda: f"{what}\n{self.logs()}", pause=0.1)

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in sorted(FOLDER.glob("*.log")))
