"""Faults in files, ranks that do not match, and machines that lack something."""

import shutil
import signal
import struct

from rig import AT, OCTET, PATIENCE, RECIPE, send, with_settings, write_png


# Files of the run. The fault is found by the training that resumes.

def after_training(change):
    """Changes something after 12 steps, and resumes."""
    def inject(rig):
        rig.train_to(AT)
        change(rig)
        rig.start(resume=True)
    return inject


def latest(text):
    """text: None deletes the file."""
    def change(rig):
        file = rig.run / "checkpoints/latest"
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
    return after_training(change)


def flip(data, at):
    """One bit."""
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1:]


def damage(change, every):
    """The newest checkpoint, or every one."""
    def damage_files(rig):
        found = rig.checkpoints()
        for file in found if every else found[-1:]:
            file.write_bytes(change(file.read_bytes()))
        if every:
            rig.heal.append(lambda: shutil.rmtree(rig.run))
    return after_training(damage_files)


def weights(change):
    def inject(rig):
        rig.train_to(AT)
        file = rig.run / "weights.safetensors"
        file.write_bytes(change(file.read_bytes()))
        rig.launch([OCTET, "eval", RECIPE, "--weights", file, *with_settings({"data.samples": 256, "data.batch": 32})])
        rig.now()
    return inject


def another_network(rig):
    run = rig.run
    rig.run = rig.directory / "other"
    rig.settings["model.name"] = "mobilenet_v2"
    rig.train_to(AT)
    foreign = rig.checkpoints()[-1].read_bytes()
    rig.run = run
    rig.settings["model.name"] = "resnet20"

    def replace(rig):
        rig.checkpoints()[-1].write_bytes(foreign)
    after_training(replace)(rig)


def torn_metrics(rig):
    def tear(rig):
        with open(rig.run / "metrics.jsonl", "ab") as file:
            file.write(b'\0\0\0\xff not JSON\n{"step":12,"kind":"tra')
    after_training(tear)(rig)


def broken_config(rig):
    def damage_config(rig):
        file = rig.run / "config.yaml"
        whole = file.read_bytes()
        file.write_bytes(whole[:len(whole) // 2] + b"\n[:")
    after_training(damage_config)(rig)


# Ranks that do not match. All of them but rank 1 run as they should.

def on_rank_1(rig, script):
    rig.wrap(f'if [ "$rank" = 1 ]; then {script}; fi')
    rig.start()


def another_key(rig):
    on_rank_1(rig, 'set -- "$@" --set train.lr=0.2')


def pictures(rig, folder, count):
    """A folder of images of two classes, that the ranks read from `pictures` of their working directory."""
    for split in "train/a", "train/b", "val/a", "val/b":
        (folder / "pictures" / split).mkdir(parents=True)
        for number in range(count):
            write_png(folder / "pictures" / split / f"{number}.png", 32, 10 * number)
    rig.settings |= {"data.name": "image_folder", "data.root": "pictures", "data.image_size": 32, "data.samples": 0,
                     "data.batch": 8, "model.classes": 2}


def with_folders(rig):
    """Folders `here` and `there` of images: rank 1 reads the other one. Before the run is resumed, they are equal."""
    for folder in "here", "there":
        pictures(rig, rig.directory / folder, 8)
    rig.wrap(f'[ "$rank" = 1 ] && cd {rig.directory}/there || cd {rig.directory}/here')
    rig.heal.pop()  # the wrapper stays

    def repair():
        shutil.rmtree(rig.directory / "there")
        shutil.copytree(rig.directory / "here", rig.directory / "there")
    rig.heal.append(repair)
    return rig.directory / "there" / "pictures"


def another_data(rig):
    there = with_folders(rig)
    write_png(there / "train/a/3.png", 32, 211)
    (there / "train/a/4.png").rename(there / "train/a/other.png")
    rig.start()


def missing_data(everything):
    def inject(rig):
        there = with_folders(rig)
        if everything:
            shutil.rmtree(there)
        else:
            (there / "train/b/5.png").unlink()
        rig.start()
    return inject


def another_build(rig):
    data = bytearray(open(OCTET, "rb").read())
    note = data.index(struct.pack("<III", 4, 20, 3) + b"GNU\0")
    data[note + 16] ^= 1
    program = rig.directory / "octet-of-rank-1"
    program.write_bytes(data)
    program.chmod(0o755)
    on_rank_1(rig, f"octet={program}")


def out_of_memory(rig):
    on_rank_1(rig, "ulimit -v 600000")


# Other starts.

def in_use(rig):
    """The first training must go on, unharmed, until it is asked to end."""
    first = rig.start()
    rig.until_step(first, 2)
    rig.start(resume=True)

    def end_first():
        send(first.process.pid, signal.SIGTERM)
        if first.process.wait(PATIENCE) != 85:
            raise AssertionError(f"the first training was harmed: {first}")
    rig.heal.append(end_first)


def other_ranks(settings):
    def inject(rig):
        rig.settings |= settings
        rig.train_to(AT)
        rig.ranks = 1
        rig.start(resume=True)
        rig.compares = bool(settings)  # with int8 the weights depend on the ranks
    return inject


def no_mpirun(rig):
    """A PATH with all programs of the usual one but mpirun."""
    folder = rig.directory / "bin"
    folder.mkdir()
    for name in "bash", "env", "sh", "cat", "cut", "dirname", "id", "stty", "sleep", "pkill", "kill", "setsid", "true":
        if program := shutil.which(name):
            (folder / name).symlink_to(program)
    rig.variables["PATH"] = folder
    rig.start()
    rig.heal.append(lambda: rig.variables.pop("PATH"))


def no_octet(rig):
    rig.octet = rig.directory / "missing"
    rig.start()
    rig.heal.append(lambda: setattr(rig, "octet", OCTET))


def unreachable_host(rig):
    hosts = rig.directory / "hosts"
    hosts.write_text("localhost slots=1\nno-such-host.invalid slots=1\n")
    rig.options = ["--hostfile", hosts]
    rig.start()
    rig.heal.append(lambda: setattr(rig, "options", []))

