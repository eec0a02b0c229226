"""Hosts that are network namespaces of this machine, each with a name and a /dev/shm of its own, on one switch."""

import os
import pathlib
import signal
import subprocess
import time

SPACES = ["--net", "--uts", "--ipc", "--mount"]


class NoHosts(Exception):
    """This machine cannot make them."""


def processes_in(space):
    """Those that share this network namespace."""
    found = []
    for link in pathlib.Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(link) == space:
                found.append(int(link.parts[2]))
        except OSError:
            continue
    return found


class Host:
    def __init__(self, name, number, names):
        self.name, self.address = name, f"10.78.0.{number}"
        script = (f"hostname {name} && mount -t tmpfs tmpfs /dev/shm && mount --bind {names} /etc/hosts && "
                  "ip link set lo up && echo ready && exec sleep infinity")
        self.process = subprocess.Popen(["unshare", *SPACES, "sh", "-c", script], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        if self.process.stdout.readline() != "ready\n":
            raise NoHosts("hosts need root and network namespaces")
        self.space = os.readlink(f"/proc/{self.process.pid}/ns/net")

    @property
    def enter(self):
        """The words before a command that runs there."""
        return ["nsenter", "--target", str(self.process.pid), *SPACES]

    def run(self, *words):
        subprocess.run([*self.enter, *words], check=True)

    def set_link(self, state):
        """Its cable: "up" or "down"."""
        self.run("ip", "link", "set", "eth0", state)

    def add_bridge(self, name):
        """As a container runtime does: with the same address on every host, and one container on it."""
        self.run("ip", "link", "add", name, "type", "bridge")
        self.run("ip", "address", "add", "172.17.0.1/16", "dev", name)
        self.run("ip", "link", "set", name, "up")
        self.run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "container")
        self.run("ip", "link", "set", "veth0", "master", name, "up")
        self.run("ip", "link", "set", "container", "up")

    def processes(self):
        return [process for process in processes_in(self.space) if process != self.process.pid]

    def kill(self):
        """As a loss of power: everything there ends at once, and the cable with it."""
        deadline = time.monotonic() + 20
        while (left := processes_in(self.space)) and time.monotonic() < deadline:
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()
        self.process.stdout.close()


class Hosts:
    """Hosts with these names. The switch is in a host "login", from which jobs can be started."""

    def __init__(self, directory, names):
        self.directory = directory / "hosts.d"
        self.directory.mkdir()
        self.numbers = {name: number for number, name in enumerate(["login", *names], 1)}
        self.names = self.directory / "names"
        self.names.write_text("127.0.0.1 localhost\n" + "".join(
            f"10.78.0.{number} {name}\n" for name, number in self.numbers.items()))
        self.agent = self.directory / "agent"
        self.agent.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1\nshift\n'
                              f'process=$(cat "{self.directory}/$host.process" 2> /dev/null) || process=none\n'
                              f'exec nsenter --target "$process" {" ".join(SPACES)} sh -c "$*"\n')
        self.agent.chmod(0o755)
        self.file = self.directory / "file"
        self.file.write_text("".join(f"{name} slots=1\n" for name in names))
        self.login = Host("login", 1, self.names)
        # An address of its own: else it takes that of a port, and changes it when a host comes or goes.
        self.login.run("ip", "link", "add", "eth0", "address", "02:00:00:4e:00:01", "type", "bridge")
        self.login.run("ip", "address", "add", f"{self.login.address}/24", "dev", "eth0")
        self.login.run("ip", "link", "set", "eth0", "up")
        self.up = {}
        for name in names:
            self.start(name)

    def start(self, name):
        host = Host(name, self.numbers[name], self.names)
        self.up[name] = host
        port, ends = f"to-{name}", [str(of.process.pid) for of in (host, self.login)]
        host.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", ends[1])
        self.login.run("ip", "link", "set", port, "master", "eth0", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        (self.directory / f"{name}.process").write_text(ends[0])

    def kill(self, name):
        (self.directory / f"{name}.process").unlink()
        self.up.pop(name).kill()

    def variables(self):
        """Of the launch script."""
        return {"INTERFACE": "eth0", "OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": self.agent}

    def close(self):
        for host in [*self.up.values(), self.login]:
            host.kill()
        self.up = {}
